// The layer norm's gradient (layer_norm_kernels.h).
#include <cmath>
#include <cstdint>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/cuda/layer_norm_kernels.h"
#include "zeroshard/device/cuda/sixteens.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// Threads of a block of kRowsPerPartial rows: first sixteen a row, then one for each two columns, where they are aligned.
constexpr unsigned kBackwardThreads = 512;
// Rows that a thread loads before it stores any: a store may be to what is loaded next, for all that the compiler knows.
constexpr unsigned kAhead = 4;

// For rows of any width. With e = d_y weight: d_x = (e - mean(e) - normalized mean(e normalized)) inverse_deviation. A block is one row
// of each partial.
template <class T, class Gradient>
ZS_DEVICE void BackwardKernel(Block& b, bool aligned, int64_t rows, int64_t width, float inverse_width, bool accumulate,
                              In<Gradient> d_y, In<T> normalized, In<float> inverse_deviation, In<T> weight,
                              InOut<float> d_x, Out<T> rounded, Out<T> y, In<T> bias, Out<float> partial_weight,
                              Out<float> partial_bias, Out<float> partial_d_x) {
  const int64_t first = int64_t{b.index()} * kRowsPerPartial;
  const int64_t count = rows - first < kRowsPerPartial ? rows - first : kRowsPerPartial;
  ZS_SHARED(float, mean, kRowsPerPartial);
  ZS_SHARED(float, slope, kRowsPerPartial);
  ZS_SHARED(float, scale, kRowsPerPartial);
  PerThread<float> sum, product;
  for (int64_t pass = 0; pass < count; pass += b.threads() / kLanesOfRow) {
    b.ForEachThread([&](unsigned t) {
      const int64_t row = pass + t / kLanesOfRow;
      float own_sum = 0, own_product = 0;
      for (int64_t i = Lane(t); row < count && i < width; i += kLanesOfRow) {
        const auto at = static_cast<size_t>((first + row) * width + i);
        const float e = WidenUniformly(d_y[at]) * WidenUniformly(weight[static_cast<size_t>(i)]);
        own_sum += e;
        own_product = fmaf(e, WidenUniformly(normalized[at]), own_product);
      }
      sum[t] = own_sum;
      product[t] = own_product;
    });
    b.FoldGroups<kLanesOfRow>(sum, Plus());
    b.FoldGroups<kLanesOfRow>(product, Plus());
    b.ForEachThread([&](unsigned t) {
      const int64_t row = pass + t / kLanesOfRow;
      if (Lane(t) != 0 || row >= count) return;
      mean[static_cast<size_t>(row)] = sum[t] * inverse_width;
      slope[static_cast<size_t>(row)] = product[t] * inverse_width;
      scale[static_cast<size_t>(row)] = inverse_deviation[static_cast<size_t>(first + row)];
    });
  }
  const auto rows_here = static_cast<unsigned>(count);
  const auto add_columns = [&](auto lanes, int64_t column) {
    const auto w = Load<lanes()>(weight, column);
    Lanes<float, lanes()> add = {};
    if (y.n != 0) add = Load<lanes()>(bias, column);
    Lanes<float, lanes()> sum_weight = {}, sum_bias = {}, sum_d_x = {};
    for (unsigned row = 0; row < rows_here; row += kAhead) {
      Lanes<float, lanes()> d[kAhead] = {}, h[kAhead] = {}, before[kAhead] = {};
      ZS_UNROLL
      for (unsigned r = 0; r < kAhead; ++r) {
        if (row + r >= rows_here) continue;
        const int64_t at = (first + row + r) * width + column;
        d[r] = Load<lanes()>(d_y, at);
        h[r] = Load<lanes()>(normalized, at);
        if (accumulate) before[r] = Load<lanes()>(d_x, at);
      }
      ZS_UNROLL
      for (unsigned r = 0; r < kAhead; ++r) {
        if (row + r >= rows_here) continue;
        Lanes<float, lanes()> gradient;
        for (int j = 0; j < lanes(); ++j) {
          sum_bias.v[j] += d[r].v[j];
          sum_weight.v[j] = fmaf(d[r].v[j], h[r].v[j], sum_weight.v[j]);
          gradient.v[j] = scale[row + r] * fmaf(-h[r].v[j], slope[row + r], d[r].v[j] * w.v[j] - mean[row + r]);
          if (accumulate) gradient.v[j] = before[r].v[j] + gradient.v[j];
          sum_d_x.v[j] += gradient.v[j];
        }
        const int64_t at = (first + row + r) * width + column;
        Store(gradient, d_x, at);
        if (rounded.n != 0) Store(gradient, rounded, at);
        if (y.n == 0) continue;
        for (int j = 0; j < lanes(); ++j) h[r].v[j] = fmaf(h[r].v[j], w.v[j], add.v[j]);
        Store(h[r], y, at);
      }
    }
    const int64_t to = int64_t{b.index()} * width + column;
    Store(sum_weight, partial_weight, to);
    Store(sum_bias, partial_bias, to);
    Store(sum_d_x, partial_d_x, to);
  };
  b.ForEachThread([&](unsigned t) { ForLanes<2>(Thread{0, t, 1, b.threads()}, width, aligned, add_columns); });
}

// Of rows that a block has under way at a time: as many as have room in 33 KiB of shared memory, and elements beside each so that two
// rows' lanes fall on different banks.
constexpr int64_t kApart = 16;
constexpr unsigned kHeldThreads = 256;
constexpr int kHeldLanes = 4;
constexpr int64_t kColumnsOfGroup = kHeldLanes * kHeldThreads;
constexpr int kGroupsOfRows = 4;
constexpr size_t kHeldElements = kGroupsOfRows * (kColumnsOfGroup + kApart);

// Neighbouring columns of a thread, in the rows that are under way, and their sums so far.
template <int kRows>
struct HeldColumns {
  Lanes<float, kHeldLanes> w, add, sum_weight, sum_bias, sum_d_x;
  Lanes<float, kHeldLanes> d[kRows], before[kRows];
};
template <int kGroups, int kRows>
struct HeldGroups {
  HeldColumns<kRows> of[kGroups];
};

// BackwardKernel that reads its rows once, for aligned ones of up to kGroups kColumnsOfGroup: a thread keeps what it loaded of a few rows
// in registers for its columns' sums, and the sixteen lanes of each row take theirs from shared memory. The same sums in the same order.
template <class T, class Gradient, int kGroups>
ZS_DEVICE void HeldBackwardKernel(Block& b, int64_t rows, int64_t width, float inverse_width, bool accumulate,
                                  In<Gradient> d_y, In<T> normalized, In<float> inverse_deviation, In<T> weight,
                                  InOut<float> d_x, Out<T> rounded, Out<T> y, In<T> bias, Out<float> partial_weight,
                                  Out<float> partial_bias, Out<float> partial_d_x) {
  constexpr int kRows = kGroupsOfRows / kGroups;
  const int64_t first = int64_t{b.index()} * kRowsPerPartial, pitch = width + kApart;
  const int64_t count = rows - first < kRowsPerPartial ? rows - first : kRowsPerPartial;
  using Columns = Stored<float, kHeldLanes>;
  ZS_SHARED(Columns, e_of, kHeldElements / kHeldLanes);
  ZS_SHARED(Columns, h_of, kHeldElements / kHeldLanes);
  ZS_SHARED(float, mean, kRows);
  ZS_SHARED(float, slope, kRows);
  ZS_SHARED(float, scale, kRows);
  PerThread<HeldGroups<kGroups, kRows>> held;
  PerThread<float> sum, product;
  // body(columns, the first of them) for those that thread t has.
  const auto each_group = [&](unsigned t, const auto& body) {
    ZS_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const int64_t column = kHeldLanes * int64_t{t} + g * kColumnsOfGroup;
      if (column < width) body(held[t].of[g], column);
    }
  };
  b.ForEachThread([&](unsigned t) {
    each_group(t, [&](auto& own, int64_t column) {
      own.w = Load<kHeldLanes>(weight, column);
      own.add = own.sum_weight = own.sum_bias = own.sum_d_x = {};
      if (y.n != 0) own.add = Load<kHeldLanes>(bias, column);
    });
  });
  for (int64_t pass = 0; pass < count; pass += kRows) {
    b.ForEachThread([&](unsigned t) {
      each_group(t, [&](auto& own, int64_t column) {
        ZS_UNROLL
        for (int r = 0; r < kRows; ++r) {
          if (pass + r >= count) continue;
          const int64_t at = (first + pass + r) * width + column;
          own.d[r] = Load<kHeldLanes>(d_y, at);
          const auto h = Load<kHeldLanes>(normalized, at);
          Columns columns;
          for (int j = 0; j < kHeldLanes; ++j) columns.v[j] = h.v[j];
          h_of[static_cast<size_t>((r * pitch + column) / kHeldLanes)] = columns;
          own.before[r] = {};
          if (accumulate) own.before[r] = Load<kHeldLanes>(d_x, at);
        }
      });
      each_group(t, [&](const auto& own, int64_t column) {
        ZS_UNROLL
        for (int r = 0; r < kRows; ++r) {
          if (pass + r >= count) continue;
          Columns columns;
          for (int j = 0; j < kHeldLanes; ++j) columns.v[j] = own.d[r].v[j] * own.w.v[j];
          e_of[static_cast<size_t>((r * pitch + column) / kHeldLanes)] = columns;
        }
      });
    });
    b.ForEachThread([&](unsigned t) {
      const int64_t r = t / kLanesOfRow;
      float own_sum = 0, own_product = 0;
      if (r < kRows && pass + r < count) {
        ZS_UNROLL_BY(8)
        for (int64_t i = Lane(t); i < width; i += kLanesOfRow) {
          const auto at = static_cast<size_t>(r * pitch + i);
          const float e = e_of[at / kHeldLanes].v[at % kHeldLanes];
          own_sum += e;
          own_product = fmaf(e, h_of[at / kHeldLanes].v[at % kHeldLanes], own_product);
        }
      }
      sum[t] = own_sum;
      product[t] = own_product;
    });
    b.FoldGroups<kLanesOfRow>(sum, Plus());
    b.FoldGroups<kLanesOfRow>(product, Plus());
    b.ForEachThread([&](unsigned t) {
      const int64_t r = t / kLanesOfRow;
      if (Lane(t) != 0 || r >= kRows || pass + r >= count) return;
      mean[static_cast<size_t>(r)] = sum[t] * inverse_width;
      slope[static_cast<size_t>(r)] = product[t] * inverse_width;
      scale[static_cast<size_t>(r)] = inverse_deviation[static_cast<size_t>(first + pass + r)];
    });
    b.ForEachThread([&](unsigned t) {
      each_group(t, [&](auto& own, int64_t column) {
        ZS_UNROLL
        for (int r = 0; r < kRows; ++r) {
          if (pass + r >= count) continue;
          const auto of = static_cast<size_t>(r);
          const Columns of_columns = h_of[static_cast<size_t>((r * pitch + column) / kHeldLanes)];
          Lanes<float, kHeldLanes> gradient, again;
          for (int j = 0; j < kHeldLanes; ++j) {
            const float d = own.d[r].v[j], h = of_columns.v[j];
            own.sum_bias.v[j] += d;
            own.sum_weight.v[j] = fmaf(d, h, own.sum_weight.v[j]);
            gradient.v[j] = scale[of] * fmaf(-h, slope[of], d * own.w.v[j] - mean[of]);
            if (accumulate) gradient.v[j] = own.before[r].v[j] + gradient.v[j];
            own.sum_d_x.v[j] += gradient.v[j];
            again.v[j] = fmaf(h, own.w.v[j], own.add.v[j]);
          }
          const int64_t at = (first + pass + r) * width + column;
          Store(gradient, d_x, at);
          if (rounded.n != 0) Store(gradient, rounded, at);
          if (y.n != 0) Store(again, y, at);
        }
      });
    });
  }
  b.ForEachThread([&](unsigned t) {
    each_group(t, [&](const auto& own, int64_t column) {
      const int64_t to = int64_t{b.index()} * width + column;
      Store(own.sum_weight, partial_weight, to);
      Store(own.sum_bias, partial_bias, to);
      Store(own.sum_d_x, partial_d_x, to);
    });
  });
}

// Bounds registers, so that a multiprocessor has room for two blocks.
constexpr unsigned kHeldBound = 2 * kHeldThreads;

template <class T, class Gradient>
cudaError_t LaunchBackward(cudaStream_t stream, const LayerNormGradient& a, WriteMode mode) {
  const Array &rounded = a.products.rounded, &y = a.products.y, &bias = a.products.bias;
  const int64_t width = a.weight.elements(), rows = a.d_y.elements() / width;
  const bool aligned = width % 4 == 0 &&
                       Aligned({a.d_y, a.normalized, a.weight, a.d_x, a.partials.weight, a.partials.bias, a.partials.d_x}) &&
                       (rounded.empty() || Aligned({rounded})) && (y.empty() || Aligned({y, bias}));
  const auto launch = [&](auto run, unsigned threads, auto... aligned_or_none) {
    const Grid grid{static_cast<unsigned>(PartialRows(rows)), threads};
    return run(stream, grid, aligned_or_none..., rows, width, 1.0f / static_cast<float>(width),
               mode == WriteMode::kAccumulate, Reads<Gradient>(a.d_y), Reads<T>(a.normalized),
               Reads<float>(a.inverse_deviation), Reads<T>(a.weight), Updates<float>(a.d_x), Writes<T>(rounded),
               Writes<T>(y), Reads<T>(bias), Writes<float>(a.partials.weight), Writes<float>(a.partials.bias),
               Writes<float>(a.partials.d_x));
  };
  if (aligned && width <= kColumnsOfGroup) {
    return launch([](auto... args) { return LaunchBlocks<HeldBackwardKernel<T, Gradient, 1>, kHeldBound>(args...); },
                  kHeldThreads);
  }
  if (aligned && width <= 2 * kColumnsOfGroup) {
    return launch([](auto... args) { return LaunchBlocks<HeldBackwardKernel<T, Gradient, 2>, kHeldBound>(args...); },
                  kHeldThreads);
  }
  return launch([](auto... args) { return LaunchBlocks<BackwardKernel<T, Gradient>, kBackwardThreads>(args...); },
                kBackwardThreads, aligned);
}

}  // namespace

cudaError_t LayerNormBackward(cudaStream_t stream, const LayerNormGradient& arrays, WriteMode mode) {
  if (arrays.d_y.empty()) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  VisitActivation(arrays.normalized.dtype(), [&]<class T>(TypeTag<T>) {
    error = arrays.d_y.dtype() == arrays.normalized.dtype() ? LaunchBackward<T, T>(stream, arrays, mode)
                                                            : LaunchBackward<T, float>(stream, arrays, mode);
  });
  return error;
}

}  // namespace zeroshard::device::cuda
