#include "zeroshard/device/cpu/reduce.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "glog/logging.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/dtype_visitor.h"

namespace zeroshard::device {
namespace {

template <Combine kCombine, class T>
T Join(T a, T b) {
  if constexpr (kCombine == Combine::kSum) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    }
    if constexpr (kCombine == Combine::kMax) return a < b ? b : a;
    return b < a ? b : a;
  }
}

// The tree as a binary counter: partial k on the stack stands for 2^j parts; equal ones join as the next part comes.
template <Combine kCombine, class From, class To>
void ReduceElements(std::span<const void* const> parts, double divisor, void* out, int64_t count) {
  using Wide = typename WideOf<From>::type;
  const Wide by = static_cast<Wide>(divisor);
  for (int64_t i = 0; i < count; ++i) {
    std::array<Wide, 64> stack;
    size_t top = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      Wide value = Widen(static_cast<const From*>(parts[p])[i]);
      for (size_t carry = p; carry & 1; carry >>= 1) value = Join<kCombine>(stack[--top], value);
      stack[top++] = value;
    }
    while (top > 1) {
      --top;
      stack[top - 1] = Join<kCombine>(stack[top - 1], stack[top]);
    }
    Wide result = stack[0];
    if (divisor != 1) result = result / by;
    static_cast<To*>(out)[i] = Narrow<To>(result);
  }
}

template <class From, class To>
void ReduceTyped(const ReduceSpec& spec, std::span<const void* const> parts, void* out, int64_t count) {
  switch (spec.combine) {
    case Combine::kSum:
      return ReduceElements<Combine::kSum, From, To>(parts, spec.divisor, out, count);
    case Combine::kMax:
      return ReduceElements<Combine::kMax, From, To>(parts, spec.divisor, out, count);
    case Combine::kMin:
      return ReduceElements<Combine::kMin, From, To>(parts, spec.divisor, out, count);
  }
}

template <class T>
constexpr bool kNarrow = !std::is_same_v<T, double> && !std::is_integral_v<T>;

}  // namespace

void ReduceParts(const ReduceSpec& spec, std::span<const void* const> parts, void* out, int64_t count) {
  CHECK(CanReduce(spec)) << "no reduction from " << Name(spec.in) << " to " << Name(spec.out);
  CHECK(!parts.empty());
  VisitDType(spec.in, [&]<class From>(TypeTag<From>) {
    VisitDType(spec.out, [&]<class To>(TypeTag<To>) {
      if constexpr (std::is_same_v<From, To> || (kNarrow<From> && kNarrow<To>)) {
        ReduceTyped<From, To>(spec, parts, out, count);
      }
    });
  });
}

}  // namespace zeroshard::device
