#include "zeroshard/device/cuda/loss_kernels.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/exponential.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/cuda/sixteens.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// What exponentials are stored times: fp16 has no small numbers.
template <class T>
constexpr float kStoredScale = std::is_same_v<T, Float16> ? 32768.0f : 1.0f;

template <class T>
ZS_DEVICE void ExponentialsKernel(Block& b, VocabularyColumns columns, In<float> logits, Out<T> exponentials,
                                  In<int32_t> targets, InOut<float> maximum, InOut<double> sum, InOut<float> target_logit,
                                  Out<float> block_maximum) {
  const auto rows = static_cast<int64_t>(targets.n);
  const int64_t n = columns.count, stride = columns.row_stride();
  const bool anew = columns.first == 0;
  const float least = -std::numeric_limits<float>::infinity();
  PerThread<float> greatest, added;
  b.ForEachThread([&](unsigned t) {
    greatest[t] = least;
    added[t] = 0;
  });
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    float most = least;
    for (int64_t i = Lane(t); i < n; i += kLanesOfRow) most = Greater()(most, logits[static_cast<size_t>(row * stride + i)]);
    greatest[t] = most;
    // Exponentials may take the logits' place.
    const int64_t target = targets[static_cast<size_t>(row)] - columns.first;
    if (Lane(t) == 0 && target >= 0 && target < n) {
      target_logit[static_cast<size_t>(row)] = logits[static_cast<size_t>(row * stride + target)];
    }
  });
  b.FoldGroups<kLanesOfRow>(greatest, Greater());
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    const float before = anew ? least : maximum[static_cast<size_t>(row)];
    const float shift = Greater()(before, greatest[t]);
    float own = 0;
    for (int64_t i = Lane(t); i < n; i += kLanesOfRow) {
      const auto at = static_cast<size_t>(row * stride + i);
      const float e = Exponential(logits[at] - shift);
      own += e;
      exponentials[at] = Narrow<T>(kStoredScale<T> == 1 ? e : e * kStoredScale<T>);
    }
    added[t] = own;
  });
  b.FoldGroups<kLanesOfRow>(added, Plus());
  ForEachRow(b, rows, [&](unsigned t, int64_t at) {
    if (Lane(t) != 0) return;
    const auto row = static_cast<size_t>(at);
    const float before = anew ? least : maximum[row], now = Greater()(before, greatest[t]);
    const double so_far = anew ? 0.0 : sum[row];
    sum[row] = (before == now || anew ? so_far : so_far * std::exp(static_cast<double>(before) - now)) + added[t];
    maximum[row] = now;
    block_maximum[row] = now;
  });
}

template <class T>
ZS_DEVICE void GradientKernel(Block& b, VocabularyColumns columns, float scale, InOut<T> exponentials, In<int32_t> targets,
                              In<float> maximum, In<double> sum, In<float> target_logit, In<float> block_maximum,
                              In<float> loss_scale) {
  const auto rows = static_cast<int64_t>(targets.n);
  const int64_t n = columns.count, stride = columns.row_stride();
  ZS_SHARED(float, factor, kRowsOfBlock);
  ZS_SHARED(float, at_target, kRowsOfBlock);
  // What a row is multiplied by, once for its threads.
  ForEachRow(b, rows, [&](unsigned t, int64_t at) {
    if (Lane(t) != 0) return;
    const auto row = static_cast<size_t>(at);
    const float of_row = targets[row] < 0 ? 0.0f : loss_scale.n == 0 ? scale : scale * loss_scale[0];
    // The exponentials were taken against the maximum of this block's time.
    const float late = block_maximum[row] - maximum[row];
    const double adjusted = late == 0.0f ? 1.0 : std::exp(static_cast<double>(late));
    factor[t / kLanesOfRow] = static_cast<float>(adjusted / sum[row] * of_row / kStoredScale<T>);
    // From the logit: the stored exponential is rounded, and what is left beside 1 may be small.
    const int64_t target = targets[row] - columns.first;
    if (target < 0 || target >= n) return;
    const double apart = static_cast<double>(target_logit[row]) - maximum[row];
    at_target[t / kLanesOfRow] = static_cast<float>((std::exp(apart) / sum[row] - 1) * of_row);
  });
  ForEachRow(b, rows, [&](unsigned t, int64_t row) {
    const int64_t target = targets[static_cast<size_t>(row)] - columns.first;
    const float by = factor[t / kLanesOfRow];
    for (int64_t i = Lane(t); i < n; i += kLanesOfRow) {
      T& e = exponentials[static_cast<size_t>(row * stride + i)];
      e = Narrow<T>(i == target ? at_target[t / kLanesOfRow] : Widen(e) * by);
    }
  });
}

// One block: its threads are the lanes.
ZS_DEVICE void SumKernel(Block& b, In<int32_t> targets, In<float> maximum, In<double> sum, In<float> target_logit,
                         Out<double> loss) {
  PerThread<double> lane;
  b.ForEachThread([&](unsigned t) {
    double own = 0;
    for (size_t row = t; row < targets.n; row += b.threads()) {
      if (targets[row] >= 0) own += std::log(sum[row]) + (static_cast<double>(maximum[row]) - target_logit[row]);
    }
    lane[t] = own;
  });
  const double total = b.Sum(lane);
  b.ForEachThread([&](unsigned t) {
    if (t == 0) loss[0] = total;
  });
}

}  // namespace

cudaError_t LossExponentials(cudaStream_t stream, VocabularyColumns columns, const LossRows& rows, const Array& logits,
                             const Array& exponentials, const Array& block_maximum) {
  if (rows.targets.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitActivation(exponentials.dtype(), [&]<class T>(TypeTag<T>) {
    error = LaunchBlocks<ExponentialsKernel<T>>(stream, GridForRows(rows.targets.elements()), columns, Reads<float>(logits),
                                                Writes<T>(exponentials), Reads<int32_t>(rows.targets),
                                                Updates<float>(rows.maximum), Updates<double>(rows.sum),
                                                Updates<float>(rows.target_logit), Writes<float>(block_maximum));
  });
  return error;
}

cudaError_t LossGradient(cudaStream_t stream, VocabularyColumns columns, const LossRows& rows, const Array& block_maximum,
                         float scale, const Array& exponentials, const Array& loss_scale) {
  if (rows.targets.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitActivation(exponentials.dtype(), [&]<class T>(TypeTag<T>) {
    error = LaunchBlocks<GradientKernel<T>>(
        stream, GridForRows(rows.targets.elements()), columns, scale, Updates<T>(exponentials), Reads<int32_t>(rows.targets),
        Reads<float>(rows.maximum), Reads<double>(rows.sum), Reads<float>(rows.target_logit), Reads<float>(block_maximum),
        Reads<float>(loss_scale));
  });
  return error;
}

cudaError_t LossSum(cudaStream_t stream, const LossRows& rows, const Array& loss) {
  return LaunchBlocks<SumKernel>(stream, Grid{1, static_cast<unsigned>(kLossLanes)}, Reads<int32_t>(rows.targets),
                                 Reads<float>(rows.maximum), Reads<double>(rows.sum), Reads<float>(rows.target_logit),
                                 Writes<double>(loss));
}

}  // namespace zeroshard::device::cuda
