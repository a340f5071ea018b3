// Kernels of the transformer: embedding, normalisation, GELU, sums over rows, the loss by columns of the vocabulary.
//
// All take the stream first, return at once and allocate nothing. Matrices are dense and row-major, [rows, width]; sizes
// follow from the arrays handed in. Sums over rows go through partials: one row of sums for each kRowsPerPartial rows, which
// SumRows adds up where the gradient belongs. So no result depends on the number of threads.
//
// An array is of "the dtype" where its comment says nothing: fp32, bf16 or fp16, one for all arrays of a call; arithmetic is
// done in fp32, and each element rounded once. The residual stream x and its gradient d_x, partials and the rows of a loss
// are fp32 always. A gradient that is "its own" may be fp32 whatever the dtype is, or two bytes; it is summed in fp32, with
// what was there, and rounded once.
//
// Example: the norm's backward, and the gradient of its weight.
//   kernels.LayerNormBackward(stream, d_y, normalized, inverse_deviation, weight, d_x, WriteMode::kAccumulate, partials);
//   kernels.SumRows(stream, partials.weight, d_weight, WriteMode::kOverwrite);
#pragma once

#include <cstdint>
#include <span>

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

enum class WriteMode : uint8_t { kOverwrite, kAccumulate };

inline constexpr int64_t kRowsPerPartial = 64;
constexpr int64_t PartialRows(int64_t rows) { return (rows + kRowsPerPartial - 1) / kRowsPerPartial; }

// Added to the variance, as GPT-2 does.
inline constexpr float kLayerNormEpsilon = 1e-5f;

// Partial sums over rows that LayerNormBackward leaves, each [PartialRows(rows), width] fp32.
struct LayerNormPartials {
  Array weight;
  Array bias;
  Array d_x;  // of d_x as it leaves it: the gradient of a bias that was added to x
};

// What LayerNormBackward leaves for the products around it, in the dtype. What is empty is left out.
struct LayerNormForProducts {
  Array rounded = {};  // [rows, width]: becomes d_x
  Array y = {};        // [rows, width]: becomes LayerNorm's y, the same bits
  Array bias = {};     // [width]: LayerNorm's, read for y
};

// sum[width] (+)= the rows of x [rows, width], first to last.
struct RowSum {
  Array x;    // fp32, bf16 or fp16
  Array sum;  // its own
  WriteMode mode;
};
// Of one operation at most.
inline constexpr int kMostRowSums = 3;

// A loss under way over [rows]: what has been seen of the vocabulary so far.
struct LossRows {
  Array targets;       // int32; a negative one is none: loss and gradient 0
  Array maximum;       // fp32, of the logits
  Array sum;           // fp64, of exp(logit - maximum)
  Array target_logit;  // fp32
};

// The rows' losses are added in this many lanes: lane j adds rows j, j + kLossLanes, ..., then halves of the lanes are added.
inline constexpr int64_t kLossLanes = 256;

// Columns [first, first + count) of the vocabulary, of which logits and exponentials are a block: its rows lie `stride` elements apart
// (0: count), and what is between them is neither read nor written.
struct VocabularyColumns {
  int64_t first = 0;
  int64_t count = 0;
  int64_t stride = 0;

  constexpr int64_t row_stride() const { return stride > 0 ? stride : count; }
};

// By what blocks of logits a device does the loss best.
struct LossBlocks {
  int64_t rows = 1;
  int64_t columns = 1;    // of the vocabulary
  int64_t stride_of = 1;  // rows of a block lie a multiple of this apart
};

class TransformerKernels {
 public:
  virtual ~TransformerKernels() = default;

  // x[r] = table[tokens[r]] + positions[r % context]. tokens: int32 [rows], each a row of table; positions [context, width];
  // x fp32.
  virtual void Embed(Stream& stream, In tokens, In table, In positions, Out x) = 0;
  // d_table[tokens[r]] += d_x[r], row after row; kOverwrite: the others become 0. d_x fp32; d_table its own.
  virtual void EmbedTokensBackward(Stream& stream, In tokens, In d_x, InOut d_table, WriteMode mode) = 0;
  // d_positions[p] (+)= the sum of d_x[r] over the rows at position p. d_x fp32; d_positions its own.
  virtual void EmbedPositionsBackward(Stream& stream, In d_x, InOut d_positions, WriteMode mode) = 0;

  // normalized = (x - mean) / sqrt(variance + epsilon), y = normalized weight + bias, from `normalized` as it is stored.
  // x fp32; inverse_deviation [rows] fp32.
  virtual void LayerNorm(Stream& stream, In x, In weight, In bias, Out normalized, Out inverse_deviation, Out y) = 0;
  // d_x (+)= the gradient of LayerNorm's x. d_y: the dtype, or fp32; d_x fp32.
  virtual void LayerNormBackward(Stream& stream, In d_y, In normalized, In inverse_deviation, In weight, InOut d_x,
                                 WriteMode mode, const LayerNormPartials& partials,
                                 const LayerNormForProducts& products = {}) = 0;

  // y = GELU(x), the tanh form; [rows, width], any shape.
  virtual void Gelu(Stream& stream, In x, Out y) = 0;
  // x becomes GELU(x); d, the gradient of that, becomes the gradient of x; partials [PartialRows(rows), width]: d's sums.
  virtual void GeluBackward(Stream& stream, InOut x, InOut d, Out partials, int64_t width) = 0;

  // Each of the sums, whose x are of one dtype, and whose `sum` are of one; their sizes may differ. One launch on a GPU.
  virtual void SumRows(Stream& stream, std::span<const RowSum> sums) = 0;
  void SumRows(Stream& stream, In x, InOut sum, WriteMode mode) {
    const RowSum one{x.array, sum.array, mode};
    SumRows(stream, {&one, 1});
  }

  virtual LossBlocks loss_blocks(DType dtype) const = 0;
  // The loss, forward: columns of logits [rows, count] become exp(logit - the rows' maximum so far), kept in block_maximum
  // [rows]. Columns come in order; those from 0 begin anew. logits fp32; exponentials in fp32 may be the same memory; in
  // fp16 they are 2^15 times as large, so that small ones are not lost.
  virtual void LossExponentials(Stream& stream, VocabularyColumns columns, const LossRows& rows, In logits, Out exponentials,
                                Out block_maximum) = 0;
  // The loss, backward, after all columns: exponentials become scale (softmax - one at the target), in the same dtype. Where
  // `loss_scale` (fp32 [1]) is not empty, it is a further factor.
  virtual void LossGradient(Stream& stream, VocabularyColumns columns, const LossRows& rows, In block_maximum, float scale,
                            InOut exponentials, In loss_scale = {}) = 0;
  // loss [1] fp64 = the sum over rows of log(sum) + maximum - target_logit, in kLossLanes lanes.
  virtual void LossSum(Stream& stream, const LossRows& rows, Out loss) = 0;
};

}  // namespace zeroshard::device
