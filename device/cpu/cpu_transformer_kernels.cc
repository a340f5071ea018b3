#include "zeroshard/device/cpu/cpu_transformer_kernels.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "zeroshard/device/cpu/cpu_needs.h"
#include "zeroshard/device/cpu/gelu_kernels.h"
#include "zeroshard/device/cpu/layer_norm_kernels.h"
#include "zeroshard/device/cpu/loss_kernels.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/cpu/row_sums.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/kernel_checks.h"

namespace zeroshard::device {
namespace {

using std::byte;
using Bytes = std::span<byte>;
using ConstBytes = std::span<const byte>;
using Floats = std::span<float>;
using ConstFloats = std::span<const float>;
using Tokens = std::span<const int32_t>;

constexpr int64_t kRowsPerStretch = 16;
constexpr int64_t kElementsPerStretch = 1 << 14;

}  // namespace

void CpuTransformerKernels::LayerNorm(Stream& stream, In x, In weight, In bias, Out normalized, Out inverse_deviation,
                                      Out y) {
  kernel_checks::LayerNorm(x.array, weight.array, bias.array, normalized.array, inverse_deviation.array, y.array);
  const int64_t width = weight.array.elements(), rows = x.array.elements() / width;
  const DType dtype = y.array.dtype();
  const auto run = [dtype, width, rows, threads = threads_](ConstFloats from, ConstBytes w, ConstBytes b, Bytes h, Floats r,
                                                            Bytes to) {
    const LayerNormForward norm{dtype, width, from.data(), w.data(), b.data(), h.data(), r.data(), to.data()};
    ParallelFor(threads, rows, kRowsPerStretch, [&](int64_t first, int64_t last) { LayerNormRows(norm, first, last); });
  };
  HostLaunch(stream, "layer norm", run, Read<float>(x), Read<byte>(weight), Read<byte>(bias), Write<byte>(normalized),
             Write<float>(inverse_deviation), Write<byte>(y));
}

void CpuTransformerKernels::LayerNormBackward(Stream& stream, In d_y, In normalized, In inverse_deviation, In weight,
                                              InOut d_x, WriteMode mode, const LayerNormPartials& partials,
                                              const LayerNormForProducts& products) {
  kernel_checks::LayerNormBackward(d_y.array, normalized.array, inverse_deviation.array, weight.array, d_x.array, partials,
                                   products);
  const int64_t width = weight.array.elements(), rows = d_y.array.elements() / width;
  const DType dtype = normalized.array.dtype(), d_y_dtype = d_y.array.dtype();
  const bool accumulate = mode == WriteMode::kAccumulate;
  const auto run = [=, threads = threads_](ConstBytes d, ConstBytes h, ConstFloats r, ConstBytes w, Floats to, Bytes narrow,
                                           Bytes y, ConstBytes b, Floats sum_weight, Floats sum_bias, Floats sum_d_x) {
    const LayerNormGradient norm{.dtype = dtype,
                                 .d_y_dtype = d_y_dtype,
                                 .width = width,
                                 .d_y = d.data(),
                                 .normalized = h.data(),
                                 .inverse_deviation = r.data(),
                                 .weight = w.data(),
                                 .d_x = to.data(),
                                 .rounded = narrow.data(),
                                 .y = y.data(),
                                 .bias = b.data(),
                                 .accumulate = accumulate,
                                 .partial_weight = sum_weight.data(),
                                 .partial_bias = sum_bias.data(),
                                 .partial_d_x = sum_d_x.data()};
    ParallelFor(threads, rows, kRowsPerPartial,
                [&](int64_t first, int64_t last) { LayerNormBackwardRows(norm, first, last); });
  };
  const auto launch = [&](auto written) {
    HostLaunch(stream, "layer norm backward", run, Read<byte>(d_y), Read<byte>(normalized), Read<float>(inverse_deviation),
               Read<byte>(weight), written, Write<byte>(products.rounded), Write<byte>(products.y),
               Read<byte>(products.bias), Write<float>(partials.weight), Write<float>(partials.bias),
               Write<float>(partials.d_x));
  };
  accumulate ? launch(Update<float>(d_x)) : launch(Write<float>(d_x.array));
}

void CpuTransformerKernels::Gelu(Stream& stream, In x, Out y) {
  kernel_checks::Gelu(x.array, y.array);
  const DType dtype = x.array.dtype();
  const int64_t elements = x.array.elements(), size = SizeOf(dtype);
  const auto run = [dtype, elements, size, threads = threads_](ConstBytes from, Bytes to) {
    ParallelFor(threads, elements, kElementsPerStretch, [&](int64_t first, int64_t last) {
      GeluElements(dtype, from.data() + first * size, to.data() + first * size, last - first);
    });
  };
  HostLaunch(stream, "GELU", run, Read<byte>(x), Write<byte>(y));
}

void CpuTransformerKernels::GeluBackward(Stream& stream, InOut x, InOut d, Out partials, int64_t width) {
  kernel_checks::GeluBackward(x.array, d.array, partials.array, width);
  const DType dtype = x.array.dtype();
  const int64_t rows = x.array.elements() / width, row_bytes = width * SizeOf(dtype);
  const auto run = [dtype, width, rows, row_bytes, threads = threads_](Bytes of, Bytes gradient, Floats sums) {
    ParallelFor(threads, rows, kRowsPerPartial, [&](int64_t first, int64_t last) {
      GeluBackwardRows(dtype, of.data() + first * row_bytes, gradient.data() + first * row_bytes,
                       sums.data() + first / kRowsPerPartial * width, last - first, width);
    });
  };
  HostLaunch(stream, "GELU backward", run, Update<byte>(x), Update<byte>(d), Write<float>(partials));
}

void CpuTransformerKernels::SumRows(Stream& stream, std::span<const RowSum> sums) {
  kernel_checks::SumRows(sums);
  for (const RowSum& one : sums) {
    const int64_t width = one.sum.elements(), rows = one.x.elements() / width;
    const bool accumulate = one.mode == WriteMode::kAccumulate;
    const auto run = [=, x = one.x.dtype(), sum = one.sum.dtype(), threads = threads_](ConstBytes from, Bytes to) {
      const RowSums columns{rows, width, x, from.data(), sum, to.data(), accumulate};
      ParallelFor(threads, width, kColumnsPerSum,
                  [&](int64_t first, int64_t last) { SumRowsOfColumns(columns, first, last); });
    };
    if (accumulate) {
      HostLaunch(stream, "sum of rows", run, Read<byte>(one.x), Update<byte>(one.sum));
    } else {
      HostLaunch(stream, "sum of rows", run, Read<byte>(one.x), Write<byte>(one.sum));
    }
  }
}

LossBlocks CpuTransformerKernels::loss_blocks(DType dtype) const { return CpuLossBlocks(dtype); }

void CpuTransformerKernels::LossExponentials(Stream& stream, VocabularyColumns columns, const LossRows& rows, In logits,
                                             Out exponentials, Out block_maximum) {
  kernel_checks::LossExponentials(columns, rows, logits.array, exponentials.array, block_maximum.array);
  const int64_t count = rows.targets.elements();
  const DType dtype = exponentials.array.dtype();
  const auto run = [columns, count, dtype, threads = threads_](ConstFloats from, Bytes to, Tokens targets, Floats maximum,
                                                               std::span<double> sum, Floats target_logit, Floats at_block) {
    const LossBlock block{columns.first, columns.count,       columns.row_stride(), targets.data(), maximum.data(),
                          sum.data(),    target_logit.data(), at_block.data(),      from.data(),    dtype,
                          to.data()};
    ParallelFor(threads, count, kRowsPerStretch, [&](int64_t first, int64_t last) { ExponentiateRows(block, first, last); });
  };
  HostLaunch(stream, "loss", run, Read<float>(logits), Write<byte>(exponentials), Read<int32_t>(rows.targets),
             Update<float>(rows.maximum), Update<double>(rows.sum), Update<float>(rows.target_logit),
             Write<float>(block_maximum));
}

void CpuTransformerKernels::LossGradient(Stream& stream, VocabularyColumns columns, const LossRows& rows, In block_maximum,
                                         float scale, InOut exponentials, In loss_scale) {
  kernel_checks::LossGradient(columns, rows, block_maximum.array, exponentials.array, loss_scale.array);
  const int64_t count = rows.targets.elements();
  const DType dtype = exponentials.array.dtype();
  const auto run = [columns, count, scale, dtype, threads = threads_](Bytes e, Tokens targets, ConstFloats maximum,
                                                                      std::span<const double> sum, ConstFloats target_logit,
                                                                      ConstFloats at_block, ConstFloats further) {
    const float factor = further.empty() ? scale : scale * further[0];
    const LossBlockGradient block{columns.first, columns.count,       columns.row_stride(), targets.data(), maximum.data(),
                                  sum.data(),    target_logit.data(), at_block.data(),      factor,         dtype,
                                  e.data()};
    ParallelFor(threads, count, kRowsPerStretch, [&](int64_t first, int64_t last) { GradientRows(block, first, last); });
  };
  HostLaunch(stream, "loss backward", run, Update<byte>(exponentials), Read<int32_t>(rows.targets),
             Read<float>(rows.maximum), Read<double>(rows.sum), Read<float>(rows.target_logit), Read<float>(block_maximum),
             Read<float>(loss_scale));
}

void CpuTransformerKernels::LossSum(Stream& stream, const LossRows& rows, Out loss) {
  const auto run = [](Tokens targets, ConstFloats maximum, std::span<const double> sum, ConstFloats target_logit,
                      std::span<double> total) {
    double lanes[kLossLanes] = {};
    for (size_t row = 0; row < targets.size(); ++row) {
      if (targets[row] < 0) continue;
      lanes[row % kLossLanes] += std::log(sum[row]) + (static_cast<double>(maximum[row]) - target_logit[row]);
    }
    for (int64_t half = kLossLanes / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    total[0] = lanes[0];
  };
  HostLaunch(stream, "sum of losses", run, Read<int32_t>(rows.targets), Read<float>(rows.maximum), Read<double>(rows.sum),
             Read<float>(rows.target_logit), Write<double>(loss));
}

}  // namespace zeroshard::device
