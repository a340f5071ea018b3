// CpuTransformerKernels: TransformerKernels on host memory, for device/cpu and device/late.
//
// Sizes and dtypes that do not agree are a bug of the caller's and end the program.
//
// Example:
//   CpuTransformerKernels kernels(/*threads=*/1);
//   kernels.Gelu(stream, x, y);
#pragma once

#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device {

class CpuTransformerKernels final : public TransformerKernels {
 public:
  explicit CpuTransformerKernels(int threads) : threads_(threads) {}

  void Embed(Stream& stream, In tokens, In table, In positions, Out x) override;
  void EmbedTokensBackward(Stream& stream, In tokens, In d_x, InOut d_table, WriteMode mode) override;
  void EmbedPositionsBackward(Stream& stream, In d_x, InOut d_positions, WriteMode mode) override;
  void LayerNorm(Stream& stream, In x, In weight, In bias, Out normalized, Out inverse_deviation, Out y) override;
  void LayerNormBackward(Stream& stream, In d_y, In normalized, In inverse_deviation, In weight, InOut d_x, WriteMode mode,
                         const LayerNormPartials& partials, const LayerNormForProducts& products) override;
  void Gelu(Stream& stream, In x, Out y) override;
  void GeluBackward(Stream& stream, InOut x, InOut d, Out partials, int64_t width) override;
  void SumRows(Stream& stream, std::span<const RowSum> sums) override;
  LossBlocks loss_blocks(DType dtype) const override;
  void LossExponentials(Stream& stream, VocabularyColumns columns, const LossRows& rows, In logits, Out exponentials,
                        Out block_maximum) override;
  void LossGradient(Stream& stream, VocabularyColumns columns, const LossRows& rows, In block_maximum, float scale,
                    InOut exponentials, In loss_scale) override;
  void LossSum(Stream& stream, const LossRows& rows, Out loss) override;

 private:
  const int threads_;
};

}  // namespace zeroshard::device
