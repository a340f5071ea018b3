#include "zeroshard/device/cuda/loss_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/exponential.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/cuda/sixteens.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// Loads of a lane that are under way at a time, of few lanes: rows have no more of them, since their sums have one order.
constexpr int kAhead = 8;

// body(i, x[at + i]) for a lane's i in [0, n), in order.
template <class Body>
ZS_DEVICE void ForEachOfLane(unsigned t, const In<float>& x, int64_t at, int64_t n, const Body& body) {
  int64_t i = Lane(t);
  for (; i + (kAhead - 1) * kLanesOfRow < n; i += kAhead * kLanesOfRow) {
    float loaded[kAhead];
    ZS_UNROLL
    for (int j = 0; j < kAhead; ++j) loaded[j] = x[static_cast<size_t>(at + i + j * kLanesOfRow)];
    ZS_UNROLL
    for (int j = 0; j < kAhead; ++j) body(i + j * kLanesOfRow, loaded[j]);
  }
  for (; i < n; i += kLanesOfRow) body(i, x[static_cast<size_t>(at + i)]);
}

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
    ForEachOfLane(t, logits, row * stride, n, [&](int64_t, float logit) { most = Greater()(most, logit); });
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
    ForEachOfLane(t, logits, row * stride, n, [&](int64_t i, float logit) {
      const float e = Exponential(logit - shift);
      own += e;
      exponentials[static_cast<size_t>(row * stride + i)] =
          NarrowUniformly<T>(kStoredScale<T> == 1 ? e : e * kStoredScale<T>);
    });
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

// Columns of a row that a block holds: what loss_blocks asks for.
constexpr int64_t kHeldColumns = 8192;
// Of which a thread holds this many groups of four.
constexpr int kHeldGroups = kHeldColumns / 4 / kRowThreads;
struct HeldLogits {
  Lanes<float, 4> of[kHeldGroups];
};

// ExponentialsKernel that reads its logits once, where a row has at most kHeldColumns and begins where four may be loaded at a time: a
// block a row. The maximum knows no order; the sum goes by the same sixteen lanes.
template <class T>
ZS_DEVICE void HeldExponentialsKernel(Block& b, VocabularyColumns columns, In<float> logits, Out<T> exponentials,
                                      In<int32_t> targets, InOut<float> maximum, InOut<double> sum,
                                      InOut<float> target_logit, Out<float> block_maximum) {
  const size_t row = b.index();
  const int64_t n = columns.count, first = static_cast<int64_t>(row) * columns.row_stride();
  const bool anew = columns.first == 0;
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  using Four = Stored<float, 4>;
  ZS_SHARED(Four, of_row, kHeldColumns / 4);
  PerThread<HeldLogits> held;
  PerThread<float> greatest, added;
  // body(group of a thread, its first column)
  const auto each_group = [&](unsigned t, const auto& body) {
    ZS_UNROLL
    for (int k = 0; k < kHeldGroups; ++k) {
      const int64_t i = 4 * (int64_t{t} + int64_t{k} * kRowThreads);
      if (i < n) body(k, i);
    }
  };
  b.ForEachThread([&](unsigned t) {
    float most = kLeast;
    each_group(t, [&](int k, int64_t i) {
      Lanes<float, 4>& own = held[t].of[k];
      if (i + 4 <= n) {
        own = Load<4>(logits, first + i);
      } else {
        for (int j = 0; j < 4; ++j) own.v[j] = i + j < n ? logits[static_cast<size_t>(first + i + j)] : kLeast;
      }
    });
    each_group(t, [&](int k, int64_t) {
      for (const float logit : held[t].of[k].v) most = Greater()(most, logit);
    });
    greatest[t] = most;
    added[t] = 0;
    // Exponentials may take the logits' place.
    const int64_t target = targets[row] - columns.first;
    if (t == 0 && target >= 0 && target < n) target_logit[row] = logits[static_cast<size_t>(first + target)];
  });
  const float greatest_of_row = b.Fold(greatest, Greater());
  const float before = anew ? kLeast : maximum[row], now = Greater()(before, greatest_of_row);
  b.ForEachThread([&](unsigned t) {
    each_group(t, [&](int k, int64_t i) {
      Lanes<float, 4> e = held[t].of[k];
      for (float& element : e.v) element = Exponential(element - now);
      Four fp32;
      for (int j = 0; j < 4; ++j) fp32.v[j] = e.v[j];
      of_row[static_cast<size_t>(i / 4)] = fp32;
      for (float& element : e.v) element = kStoredScale<T> == 1 ? element : element * kStoredScale<T>;
      if (i + 4 <= n) return Store(e, exponentials, first + i);
      for (int j = 0; j < 4 && i + j < n; ++j) {
        exponentials[static_cast<size_t>(first + i + j)] = NarrowUniformly<T>(e.v[j]);
      }
    });
  });
  b.ForEachThread([&](unsigned t) {
    if (t >= kLanesOfRow) return;
    float own = 0;
    ZS_UNROLL_BY(8)
    for (int64_t i = t; i < n; i += kLanesOfRow) own += of_row[static_cast<size_t>(i / 4)].v[i % 4];
    added[t] = own;
  });
  b.FoldGroups<kLanesOfRow>(added, Plus());
  b.ForEachThread([&](unsigned t) {
    if (t != 0) return;
    const double so_far = anew ? 0.0 : sum[row];
    sum[row] = (before == now || anew ? so_far : so_far * std::exp(static_cast<double>(before) - now)) + added[t];
    maximum[row] = now;
    block_maximum[row] = now;
  });
}

// Of a row, the columns that one block of the gradient takes.
constexpr int64_t kColumnsOfBlock = 2048;
int64_t BlocksOfRow(const VocabularyColumns& columns) {
  return std::max<int64_t>(1, (columns.count + kColumnsOfBlock - 1) / kColumnsOfBlock);
}

// A block takes a part of the columns of kRowsOfBlock rows; aligned: rows begin where four elements may be loaded at a time.
template <class T>
ZS_DEVICE void GradientKernel(Block& b, bool aligned, int64_t parts, VocabularyColumns columns, float scale,
                              InOut<T> exponentials, In<int32_t> targets, In<float> maximum, In<double> sum,
                              In<float> target_logit, In<float> block_maximum, In<float> loss_scale) {
  const auto rows = static_cast<int64_t>(targets.n);
  const int64_t stride = columns.row_stride(), block_of_rows = b.index() / parts;
  const int64_t begin = b.index() % parts * kColumnsOfBlock;
  const int64_t end = begin + kColumnsOfBlock < columns.count ? begin + kColumnsOfBlock : columns.count;
  ZS_SHARED(float, factor, kRowsOfBlock);
  ZS_SHARED(float, at_target, kRowsOfBlock);
  // What a row is multiplied by, once for its threads.
  ForEachRowOf(b, block_of_rows, rows, [&](unsigned t, int64_t at) {
    if (Lane(t) != 0) return;
    const auto row = static_cast<size_t>(at);
    const float of_row = targets[row] < 0 ? 0.0f : loss_scale.n == 0 ? scale : scale * loss_scale[0];
    // The exponentials were taken against the maximum of this block's time.
    const float late = block_maximum[row] - maximum[row];
    const double adjusted = late == 0.0f ? 1.0 : std::exp(static_cast<double>(late));
    factor[t / kLanesOfRow] = static_cast<float>(adjusted / sum[row] * of_row / kStoredScale<T>);
    // From the logit: the stored exponential is rounded, and what is left beside 1 may be small.
    const int64_t target = targets[row] - columns.first;
    if (target < begin || target >= end) return;
    const double apart = static_cast<double>(target_logit[row]) - maximum[row];
    at_target[t / kLanesOfRow] = static_cast<float>((std::exp(apart) / sum[row] - 1) * of_row);
  });
  ForEachRowOf(b, block_of_rows, rows, [&](unsigned t, int64_t row) {
    const int64_t target = targets[static_cast<size_t>(row)] - columns.first;
    const float by = factor[t / kLanesOfRow], own = at_target[t / kLanesOfRow];
    const auto change = [&](auto lanes, int64_t i) {
      auto e = Load<lanes()>(exponentials, row * stride + i);
      for (int j = 0; j < lanes(); ++j) e.v[j] = i + j == target ? own : e.v[j] * by;
      Store(e, exponentials, row * stride + i);
    };
    const int64_t whole = aligned ? end - (end - begin) % 4 : begin;
    ZS_UNROLL_BY(4)
    for (int64_t i = begin + 4 * Lane(t); i < whole; i += 4 * kLanesOfRow) change(std::integral_constant<int, 4>(), i);
    for (int64_t i = whole + Lane(t); i < end; i += kLanesOfRow) change(std::integral_constant<int, 1>(), i);
  });
}

// One block: its threads are the lanes. Rows that a thread loads and whose logarithms it takes before it adds any: it is alone, and memory
// is far.
ZS_DEVICE void SumKernel(Block& b, In<int32_t> targets, In<float> maximum, In<double> sum, In<float> target_logit,
                         Out<double> loss) {
  constexpr unsigned kRowsAhead = 8;
  PerThread<double> lane;
  b.ForEachThread([&](unsigned t) {
    double own = 0;
    for (size_t first = t; first < targets.n; first += size_t{kRowsAhead} * b.threads()) {
      bool counts[kRowsAhead];
      double value[kRowsAhead], apart[kRowsAhead];
      ZS_UNROLL
      for (unsigned j = 0; j < kRowsAhead; ++j) {
        const size_t row = first + size_t{j} * b.threads(), at = row < targets.n ? row : first;
        counts[j] = row < targets.n && targets[at] >= 0;
        value[j] = sum[at];
        apart[j] = static_cast<double>(maximum[at]) - target_logit[at];
      }
      ZS_UNROLL
      for (unsigned j = 0; j < kRowsAhead; ++j) value[j] = std::log(value[j]) + apart[j];
      ZS_UNROLL
      for (unsigned j = 0; j < kRowsAhead; ++j) own = counts[j] ? own + value[j] : own;
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
  const bool holds = columns.count <= kHeldColumns && columns.row_stride() % 4 == 0 && Aligned({logits, exponentials});
  const Grid grid =
      holds ? Grid{static_cast<unsigned>(rows.targets.elements()), kRowThreads} : GridForRows(rows.targets.elements());
  cudaError_t error = cudaSuccess;
  VisitActivation(exponentials.dtype(), [&]<class T>(TypeTag<T>) {
    const auto launch = [&](auto run) {
      return run(stream, grid, columns, Reads<float>(logits), Writes<T>(exponentials), Reads<int32_t>(rows.targets),
                 Updates<float>(rows.maximum), Updates<double>(rows.sum), Updates<float>(rows.target_logit),
                 Writes<float>(block_maximum));
    };
    error = holds ? launch([](auto... args) { return LaunchBlocks<HeldExponentialsKernel<T>>(args...); })
                  : launch([](auto... args) { return LaunchBlocks<ExponentialsKernel<T>>(args...); });
  });
  return error;
}

cudaError_t LossGradient(cudaStream_t stream, VocabularyColumns columns, const LossRows& rows, const Array& block_maximum,
                         float scale, const Array& exponentials, const Array& loss_scale) {
  if (rows.targets.empty()) return cudaSuccess;
  const bool aligned = columns.row_stride() % 4 == 0 && Aligned({exponentials});
  const int64_t parts = BlocksOfRow(columns);
  Grid grid = GridForRows(rows.targets.elements());
  grid.blocks *= static_cast<unsigned>(parts);
  cudaError_t error = cudaSuccess;
  VisitActivation(exponentials.dtype(), [&]<class T>(TypeTag<T>) {
    error = LaunchBlocks<GradientKernel<T>>(stream, grid, aligned, parts, columns, scale, Updates<T>(exponentials),
                                            Reads<int32_t>(rows.targets), Reads<float>(rows.maximum),
                                            Reads<double>(rows.sum), Reads<float>(rows.target_logit),
                                            Reads<float>(block_maximum), Reads<float>(loss_scale));
  });
  return error;
}

cudaError_t LossSum(cudaStream_t stream, const LossRows& rows, const Array& loss) {
  return LaunchBlocks<SumKernel>(stream, Grid{1, static_cast<unsigned>(kLossLanes)}, Reads<int32_t>(rows.targets),
                                 Reads<float>(rows.maximum), Reads<double>(rows.sum), Reads<float>(rows.target_logit),
                                 Writes<double>(loss));
}

}  // namespace zeroshard::device::cuda
