// CudaTransformerKernels: the transformer's kernels of device/cuda. All give the bits of device/cpu's, but for what fp64's exp and log
// give in the loss, which on a GPU are within 1 ulp.
//
// Sizes and dtypes that do not agree are a bug of the caller's and end the program.
//
// Example:
//   CudaTransformerKernels kernels;
//   kernels.Gelu(stream, x, y);        // a CudaStream
#pragma once

#include <cstdint>

#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::cuda {

class CudaTransformerKernels final : public TransformerKernels {
 public:
  void Embed(Stream& stream, device::In tokens, device::In table, device::In positions, device::Out x) override;
  void EmbedTokensBackward(Stream& stream, device::In tokens, device::In d_x, device::InOut d_table,
                           WriteMode mode) override;
  void EmbedPositionsBackward(Stream& stream, device::In d_x, device::InOut d_positions, WriteMode mode) override;
  void LayerNorm(Stream& stream, device::In x, device::In weight, device::In bias, device::Out normalized,
                 device::Out inverse_deviation, device::Out y) override;
  void LayerNormBackward(Stream& stream, device::In d_y, device::In normalized, device::In inverse_deviation,
                         device::In weight, device::InOut d_x, WriteMode mode, const LayerNormPartials& partials,
                         const LayerNormForProducts& products) override;
  void Gelu(Stream& stream, device::In x, device::Out y) override;
  void GeluBackward(Stream& stream, device::InOut x, device::InOut d, device::Out partials, int64_t width) override;
  void SumRows(Stream& stream, std::span<const RowSum> sums) override;
  LossBlocks loss_blocks(DType dtype) const override;
  void LossExponentials(Stream& stream, VocabularyColumns columns, const LossRows& rows, device::In logits,
                        device::Out exponentials, device::Out block_maximum) override;
  void LossGradient(Stream& stream, VocabularyColumns columns, const LossRows& rows, device::In block_maximum, float scale,
                    device::InOut exponentials, device::In loss_scale) override;
  void LossSum(Stream& stream, const LossRows& rows, device::Out loss) override;
};

}  // namespace zeroshard::device::cuda
