#include "zeroshard/device/cuda/cuda_transformer_kernels.h"

#include "zeroshard/device/cuda/cuda_needs.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/embedding_kernels.h"
#include "zeroshard/device/cuda/gelu_kernels.h"
#include "zeroshard/device/cuda/layer_norm_kernels.h"
#include "zeroshard/device/cuda/loss_kernels.h"
#include "zeroshard/device/cuda/row_sum_kernels.h"
#include "zeroshard/device/kernel_checks.h"

namespace zeroshard::device::cuda {

void CudaTransformerKernels::Embed(Stream& stream, device::In tokens, device::In table, device::In positions,
                                   device::Out x) {
  kernel_checks::Embed(tokens.array, table.array, positions.array, x.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::Embed(on.native(), tokens.array, table.array, positions.array, x.array), "embedding");
}

void CudaTransformerKernels::EmbedTokensBackward(Stream& stream, device::In tokens, device::In d_x, device::InOut d_table,
                                                 WriteMode mode) {
  kernel_checks::EmbedTokensBackward(tokens.array, d_x.array, d_table.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::EmbedTokensBackward(on.native(), tokens.array, d_x.array, d_table.array, mode), "embedding backward");
}

void CudaTransformerKernels::EmbedPositionsBackward(Stream& stream, device::In d_x, device::InOut d_positions,
                                                    WriteMode mode) {
  kernel_checks::EmbedPositionsBackward(d_x.array, d_positions.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::EmbedPositionsBackward(on.native(), d_x.array, d_positions.array, mode), "positions backward");
}

void CudaTransformerKernels::LayerNorm(Stream& stream, device::In x, device::In weight, device::In bias,
                                       device::Out normalized, device::Out inverse_deviation, device::Out y) {
  kernel_checks::LayerNorm(x.array, weight.array, bias.array, normalized.array, inverse_deviation.array, y.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(
      cuda::LayerNorm(on.native(), x.array, weight.array, bias.array, normalized.array, inverse_deviation.array, y.array),
      "layer norm");
}

void CudaTransformerKernels::LayerNormBackward(Stream& stream, device::In d_y, device::In normalized,
                                               device::In inverse_deviation, device::In weight, device::InOut d_x,
                                               WriteMode mode, const LayerNormPartials& partials,
                                               const LayerNormForProducts& products) {
  kernel_checks::LayerNormBackward(d_y.array, normalized.array, inverse_deviation.array, weight.array, d_x.array, partials,
                                   products);
  CudaStream& on = CudaStream::Of(stream);
  const LayerNormGradient arrays{.d_y = d_y.array,
                                 .normalized = normalized.array,
                                 .inverse_deviation = inverse_deviation.array,
                                 .weight = weight.array,
                                 .d_x = d_x.array,
                                 .partials = partials,
                                 .products = products};
  on.Keep(cuda::LayerNormBackward(on.native(), arrays, mode), "layer norm backward");
}

void CudaTransformerKernels::Gelu(Stream& stream, device::In x, device::Out y) {
  kernel_checks::Gelu(x.array, y.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::Gelu(on.native(), x.array, y.array), "GELU");
}

void CudaTransformerKernels::GeluBackward(Stream& stream, device::InOut x, device::InOut d, device::Out partials,
                                          int64_t width) {
  kernel_checks::GeluBackward(x.array, d.array, partials.array, width);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::GeluBackward(on.native(), x.array, d.array, partials.array, width), "GELU backward");
}

void CudaTransformerKernels::SumRows(Stream& stream, std::span<const RowSum> sums) {
  kernel_checks::SumRows(sums);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::SumRows(on.native(), sums), "sum of rows");
}

LossBlocks CudaTransformerKernels::loss_blocks(DType dtype) const { return CudaLossBlocks(dtype); }

void CudaTransformerKernels::LossExponentials(Stream& stream, VocabularyColumns columns, const LossRows& rows,
                                              device::In logits, device::Out exponentials, device::Out block_maximum) {
  kernel_checks::LossExponentials(columns, rows, logits.array, exponentials.array, block_maximum.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::LossExponentials(on.native(), columns, rows, logits.array, exponentials.array, block_maximum.array), "loss");
}

void CudaTransformerKernels::LossGradient(Stream& stream, VocabularyColumns columns, const LossRows& rows,
                                          device::In block_maximum, float scale, device::InOut exponentials,
                                          device::In loss_scale) {
  kernel_checks::LossGradient(columns, rows, block_maximum.array, exponentials.array, loss_scale.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::LossGradient(on.native(), columns, rows, block_maximum.array, scale, exponentials.array, loss_scale.array),
          "loss backward");
}

void CudaTransformerKernels::LossSum(Stream& stream, const LossRows& rows, device::Out loss) {
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::LossSum(on.native(), rows, loss.array), "sum of losses");
}

}  // namespace zeroshard::device::cuda
