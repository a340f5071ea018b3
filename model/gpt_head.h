// The last unit of a GPT-2: the final norm, the projection onto the vocabulary, and the loss.
//
// Logits are never held in full. The loss goes by the device's LossBlocks: by some rows, and for them by some columns of the
// vocabulary: logits, the running maximum, exponentials in place; then, with each row's sum known, the gradient in place and its
// products. Where the device wants rows of logits further apart than an odd vocabulary has them, only they are padded, never the matrix.
//
// Example:
//   head.Forward(stream, parameters, activations);
//   head.LossAndBackward(stream, parameters, targets, activations, {.factor = 1.0f / tokens});
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gpt_activations.h"
#include "zeroshard/model/gpt_options.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/model/linear.h"

namespace zeroshard::model {

// What the loss is multiplied by before its gradient is taken.
struct LossScaling {
  float factor = 1;
  device::Array on_device = {};  // fp32 [1], a further factor; empty: 1
};

class GptHead {
 public:
  // Errors: as Device::PlanGemm.
  static absl::StatusOr<GptHead> Plan(device::Device& device, const GptOptions& options);

  // shared.y = norm(shared.residual).
  void Forward(device::Stream& stream, std::span<const device::Array> parameters, const GptActivations& shared) const;

  // shared.loss = the sum of the losses of all rows, from shared.y.
  void Loss(device::Stream& stream, std::span<const device::Array> parameters, const GptActivations& shared) const;

  // The same, and the gradient of it scaled: shared.d_residual, as it is and rounded, shared.partials.d_x, and the targets.
  void LossAndBackward(device::Stream& stream, std::span<const device::Array> parameters,
                       std::span<const GradientTarget> targets, const GptActivations& shared,
                       const LossScaling& scaling) const;

  // logits [vocab] fp32 of one row of shared.y.
  void Logits(device::Stream& stream, std::span<const device::Array> parameters, const GptActivations& shared, int64_t row,
              device::Out logits) const;

 private:
  // A stretch of rows, or of columns, and which of the two planned sizes it has.
  struct Stretch {
    int64_t first, count;
    int64_t stride;  // of columns: from row to row of a block
    int size;        // 0: full, 1: the rest
  };
  static std::vector<Stretch> Stretches(int64_t total, int64_t most, int64_t stride_of);
  const Linear& product(const Stretch& rows, const Stretch& columns) const { return products_[rows.size][columns.size]; }
  // Of one block of rows and columns.
  static device::VocabularyColumns Vocabulary(const Stretch& columns);
  device::Array BlockMaximum(const GptActivations& shared, const Stretch& rows, const Stretch& columns) const;
  device::Array Exponentials(const GptActivations& shared, const Stretch& rows, const Stretch& columns) const;
  void Exponentiate(device::Stream& stream, const device::Array& matrix, const GptActivations& shared, const Stretch& rows,
                    const Stretch& columns, const device::Array& exponentials) const;
  void Backward(device::Stream& stream, const device::Array& matrix, const GradientTarget& target,
                const GptActivations& shared, const Stretch& rows, const Stretch& columns, const LossScaling& scaling) const;

  int64_t width_ = 0;
  int64_t most_columns_ = 0;  // of a block
  std::vector<Stretch> rows_;
  std::vector<Stretch> columns_;
  Linear products_[2][2];  // by size of the rows, of the columns
  std::unique_ptr<device::Gemm> logits_;
};

}  // namespace zeroshard::model
