#include "zeroshard/device/cpu/cpu_transformer_kernels.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "glog/logging.h"
#include "zeroshard/device/cpu/gelu_kernels.h"
#include "zeroshard/device/cpu/layer_norm_kernels.h"
#include "zeroshard/device/cpu/loss_kernels.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/cpu/row_sums.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device {
namespace {

using Floats = std::span<float>;
using ConstFloats = std::span<const float>;
using Tokens = std::span<const int32_t>;

constexpr int64_t kRowsPerStretch = 16;
constexpr int64_t kElementsPerStretch = 1 << 14;

int64_t Size(const auto& span) { return static_cast<int64_t>(span.size()); }

// Rows of a matrix of which `array` holds [rows, width].
int64_t RowsOf(const Array& array, int64_t width, const char* what) {
  CHECK(width > 0 && array.elements() % width == 0) << what << ": " << array.elements() << " elements in rows of " << width;
  CHECK(array.dtype() == DType::kFloat32) << what << ": " << Name(array.dtype());
  return array.elements() / width;
}

}  // namespace

void CpuTransformerKernels::LayerNorm(Stream& stream, In x, In weight, In bias, Out normalized, Out inverse_deviation,
                                      Out y) {
  const int64_t width = weight.array.elements(), rows = RowsOf(x.array, width, "layer norm");
  CHECK_EQ(inverse_deviation.array.elements(), rows);
  const auto run = [width, rows, threads = threads_](ConstFloats from, ConstFloats w, ConstFloats b, Floats h, Floats r,
                                                     Floats to) {
    const LayerNormForward norm{width, from.data(), w.data(), b.data(), h.data(), r.data(), to.data()};
    ParallelFor(threads, rows, kRowsPerStretch, [&](int64_t first, int64_t last) { LayerNormRows(norm, first, last); });
  };
  HostLaunch(stream, "layer norm", run, Read<float>(x), Read<float>(weight), Read<float>(bias), Write<float>(normalized),
             Write<float>(inverse_deviation), Write<float>(y));
}

void CpuTransformerKernels::LayerNormOutput(Stream& stream, In normalized, In weight, In bias, Out y) {
  const int64_t width = weight.array.elements(), rows = RowsOf(normalized.array, width, "layer norm's output");
  const auto run = [width, rows, threads = threads_](ConstFloats h, ConstFloats w, ConstFloats b, Floats to) {
    const LayerNormAgain norm{width, h.data(), w.data(), b.data(), to.data()};
    ParallelFor(threads, rows, kRowsPerStretch,
                [&](int64_t first, int64_t last) { LayerNormOutputRows(norm, first, last); });
  };
  HostLaunch(stream, "layer norm's output", run, Read<float>(normalized), Read<float>(weight), Read<float>(bias),
             Write<float>(y));
}

void CpuTransformerKernels::LayerNormBackward(Stream& stream, In d_y, In normalized, In inverse_deviation, In weight,
                                              InOut d_x, WriteMode mode, const LayerNormPartials& partials, Out rounded) {
  CHECK(rounded.array.empty()) << "layer norm backward: rounded";
  const int64_t width = weight.array.elements(), rows = RowsOf(d_y.array, width, "layer norm backward");
  for (const Array* sums : {&partials.weight, &partials.bias, &partials.d_x}) {
    CHECK_EQ(sums->elements(), PartialRows(rows) * width) << "layer norm backward: partials";
  }
  const bool accumulate = mode == WriteMode::kAccumulate;
  const auto run = [width, rows, accumulate, threads = threads_](ConstFloats d, ConstFloats h, ConstFloats r, ConstFloats w,
                                                                 Floats to, Floats sum_weight, Floats sum_bias,
                                                                 Floats sum_d_x) {
    const LayerNormGradient norm{width,     d.data(),   h.data(),          r.data(),        w.data(),
                                 to.data(), accumulate, sum_weight.data(), sum_bias.data(), sum_d_x.data()};
    ParallelFor(threads, rows, kRowsPerPartial,
                [&](int64_t first, int64_t last) { LayerNormBackwardRows(norm, first, last); });
  };
  const auto launch = [&](auto written) {
    HostLaunch(stream, "layer norm backward", run, Read<float>(d_y), Read<float>(normalized), Read<float>(inverse_deviation),
               Read<float>(weight), written, Write<float>(partials.weight), Write<float>(partials.bias),
               Write<float>(partials.d_x));
  };
  accumulate ? launch(Update<float>(d_x)) : launch(Write<float>(d_x.array));
}

void CpuTransformerKernels::Gelu(Stream& stream, In x, Out y) {
  CHECK_EQ(x.array.elements(), y.array.elements()) << "GELU";
  const auto run = [threads = threads_](ConstFloats from, Floats to) {
    ParallelFor(threads, Size(to), kElementsPerStretch,
                [&](int64_t first, int64_t last) { GeluElements(from.data() + first, to.data() + first, last - first); });
  };
  HostLaunch(stream, "GELU", run, Read<float>(x), Write<float>(y));
}

void CpuTransformerKernels::GeluBackward(Stream& stream, InOut x, InOut d, Out partials, int64_t width) {
  const int64_t rows = RowsOf(x.array, width, "GELU backward");
  CHECK_EQ(partials.array.elements(), PartialRows(rows) * width) << "GELU backward: partials";
  const auto run = [width, rows, threads = threads_](Floats of, Floats gradient, Floats sums) {
    ParallelFor(threads, rows, kRowsPerPartial, [&](int64_t first, int64_t last) {
      GeluBackwardRows(of.data() + first * width, gradient.data() + first * width,
                       sums.data() + first / kRowsPerPartial * width, last - first, width);
    });
  };
  HostLaunch(stream, "GELU backward", run, Update<float>(x), Update<float>(d), Write<float>(partials));
}

void CpuTransformerKernels::SumRows(Stream& stream, In x, InOut sum, WriteMode mode) {
  const int64_t width = sum.array.elements(), rows = RowsOf(x.array, width, "sum of rows");
  const bool accumulate = mode == WriteMode::kAccumulate;
  const auto run = [width, rows, accumulate, threads = threads_](ConstFloats from, Floats to) {
    const RowSums sums{rows, width, from.data(), to.data(), accumulate};
    ParallelFor(threads, width, kColumnsPerSum, [&](int64_t first, int64_t last) { SumRowsOfColumns(sums, first, last); });
  };
  if (accumulate) {
    HostLaunch(stream, "sum of rows", run, Read<float>(x), Update<float>(sum));
  } else {
    HostLaunch(stream, "sum of rows", run, Read<float>(x), Write<float>(sum.array));
  }
}

void CpuTransformerKernels::LossExponentials(Stream& stream, VocabularyColumns columns, const LossRows& rows, In logits,
                                             Out exponentials, Out block_maximum) {
  const int64_t count = RowsOf(logits.array, columns.count, "loss");
  CHECK_EQ(rows.targets.elements(), count) << "loss: rows";
  const auto run = [columns, count, threads = threads_](ConstFloats from, Floats to, Tokens targets, Floats maximum,
                                                        std::span<double> sum, Floats target_logit, Floats at_block) {
    const LossBlock block{columns.first,       columns.count,   targets.data(), maximum.data(), sum.data(),
                          target_logit.data(), at_block.data(), from.data(),    to.data()};
    ParallelFor(threads, count, kRowsPerStretch, [&](int64_t first, int64_t last) { ExponentiateRows(block, first, last); });
  };
  HostLaunch(stream, "loss", run, Read<float>(logits), Write<float>(exponentials), Read<int32_t>(rows.targets),
             Update<float>(rows.maximum), Update<double>(rows.sum), Update<float>(rows.target_logit),
             Write<float>(block_maximum));
}

void CpuTransformerKernels::LossGradient(Stream& stream, VocabularyColumns columns, const LossRows& rows, In block_maximum,
                                         float scale, InOut exponentials) {
  const int64_t count = RowsOf(exponentials.array, columns.count, "loss backward");
  CHECK_EQ(rows.targets.elements(), count) << "loss backward: rows";
  const auto run = [columns, count, scale, threads = threads_](Floats e, Tokens targets, ConstFloats maximum,
                                                               std::span<const double> sum, ConstFloats at_block) {
    const LossBlockGradient block{columns.first, columns.count,   targets.data(), maximum.data(),
                                  sum.data(),    at_block.data(), scale,          e.data()};
    ParallelFor(threads, count, kRowsPerStretch, [&](int64_t first, int64_t last) { GradientRows(block, first, last); });
  };
  HostLaunch(stream, "loss backward", run, Update<float>(exponentials), Read<int32_t>(rows.targets),
             Read<float>(rows.maximum), Read<double>(rows.sum), Read<float>(block_maximum));
}

void CpuTransformerKernels::LossSum(Stream& stream, const LossRows& rows, Out loss) {
  const auto run = [](Tokens targets, ConstFloats maximum, std::span<const double> sum, ConstFloats target_logit,
                      std::span<double> total) {
    total[0] = 0;
    for (size_t row = 0; row < targets.size(); ++row) {
      if (targets[row] < 0) continue;
      total[0] += std::log(sum[row]) + (static_cast<double>(maximum[row]) - target_logit[row]);
    }
  };
  HostLaunch(stream, "sum of losses", run, Read<int32_t>(rows.targets), Read<float>(rows.maximum), Read<double>(rows.sum),
             Read<float>(rows.target_logit), Write<double>(loss));
}

}  // namespace zeroshard::device
