#include "zeroshard/device/cuda/reduce_kernels.h"

#include <cstdint>
#include <limits>
#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device::cuda {
namespace {

// Partial results that wait for their neighbours: one for each level of the tree. Few for a node's ranks, so that registers are left
// for more threads.
constexpr int kFewLevels = 4, kAllLevels = 11;
constexpr int64_t kFewParts = 1 << (kFewLevels - 1);
static_assert(kMaxReduceParts <= 1 << (kAllLevels - 1));

template <class T>
ZS_DEVICE T Join(Combine combine, T a, T b) {
  if (combine == Combine::kSum) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
  }
  return (combine == Combine::kMax ? a < b : b < a) ? b : a;
}

template <class Wide, int kLanes>
ZS_DEVICE Lanes<Wide, kLanes> Join(Combine combine, const Lanes<Wide, kLanes>& a, Lanes<Wide, kLanes> b) {
  for (int i = 0; i < kLanes; ++i) b.v[i] = Join(combine, a.v[i], b.v[i]);
  return b;
}

// Of the parts, and how to combine them.
struct Tree {
  Combine combine;
  double divisor;
  int parts;
  int own_part;  // -1: none
  int64_t stride;
};

// Level by level pairing is a binary counter over parts: equal neighbours join as soon as both are there, what is left over joins from
// the right at the end.
template <class From, class To, int kLevels>
ZS_DEVICE void ReduceKernel(Thread t, bool aligned, Tree tree, In<From> received, In<From> own, Out<To> out) {
  using Wide = typename WideOf<From>::type;
  ForLanes(t, static_cast<int64_t>(out.n), aligned, [&](auto lanes, int64_t i) {
    Lanes<Wide, lanes()> waiting[kLevels] = {};
    for (int part = 0; part < tree.parts; ++part) {
      auto x = part == tree.own_part ? Load<lanes()>(own, i) : Load<lanes()>(received, part * tree.stride + i);
      bool carries = true;
      ZS_UNROLL
      for (int level = 0; level < kLevels; ++level) {
        if (!carries) continue;
        if ((part >> level & 1) != 0) {
          x = Join(tree.combine, waiting[level], x);
        } else {
          waiting[level] = x;
          carries = false;
        }
      }
    }
    Lanes<Wide, lanes()> result = {};
    bool begun = false;
    ZS_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      if ((tree.parts >> level & 1) == 0) continue;
      result = begun ? Join(tree.combine, waiting[level], result) : waiting[level];
      begun = true;
    }
    if constexpr (std::is_floating_point_v<Wide>) {
      const auto by = static_cast<Wide>(tree.divisor);
      if (tree.divisor != 1) {
        for (auto& element : result.v) element /= by;
      }
    }
    Store(result, out, i);
  });
}

template <class T>
constexpr bool kUpToFp32 = std::is_same_v<typename WideOf<T>::type, float>;

}  // namespace

cudaError_t ReduceParts(cudaStream_t stream, const ReduceSpec& spec, const PartsOfRanks& parts, const Array& out) {
  if (!CanReduce(spec) || parts.parts < 1 || parts.parts > kMaxReduceParts) return cudaErrorInvalidValue;
  if (out.empty()) return cudaSuccess;
  const bool has_own = !parts.own.empty();
  const Array second = parts.received.Slice(parts.stride, 0);
  const bool aligned =
      Aligned({parts.received, out}) && (parts.parts == 1 || Aligned({second})) && (!has_own || Aligned({parts.own}));
  const Tree tree{spec.combine, spec.divisor, static_cast<int>(parts.parts), has_own ? static_cast<int>(parts.own_part) : -1,
                  parts.stride};
  cudaError_t error = cudaErrorInvalidValue;
  VisitDType(spec.in, [&]<class From>(TypeTag<From>) {
    VisitDType(spec.out, [&]<class To>(TypeTag<To>) {
      if constexpr (!std::is_same_v<From, uint8_t> && (std::is_same_v<From, To> || (kUpToFp32<From> && kUpToFp32<To>))) {
        const auto launch = [&](auto kernel) {
          return kernel(stream, GridForFours(out.elements()), aligned, tree, Reads<From>(parts.received),
                        Reads<From>(parts.own), Writes<To>(out));
        };
        error = parts.parts <= kFewParts
                    ? launch([](auto... args) { return Launch<ReduceKernel<From, To, kFewLevels>>(args...); })
                    : launch([](auto... args) { return Launch<ReduceKernel<From, To, kAllLevels>>(args...); });
      }
    });
  });
  return error;
}

}  // namespace zeroshard::device::cuda
