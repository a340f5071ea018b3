#include "zeroshard/device/cpu/elementwise_kernels.h"

#include <type_traits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/dtype_visitor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/elementwise_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

template <class T>
void FillTyped(T value, T* y, int64_t count) {
  using Stored = typename StoredAs<T>::type;
  const hn::ScalableTag<Stored> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Stored* const to = reinterpret_cast<Stored*>(y);
  const Stored bits = std::bit_cast<Stored>(value);
  const auto v = hn::Set(d, bits);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(v, d, to + i);
  for (; i < count; ++i) to[i] = bits;
}

void Fill(DType type, double value, void* y, int64_t count) {
  VisitDType(type, [&]<class T>(TypeTag<T>) { FillTyped(Narrow<T>(value), static_cast<T*>(y), count); });
}

template <class From, class To>
void ConvertTyped(const From* x, To* y, int64_t count) {
  int64_t i = 0;
  if constexpr (std::is_same_v<typename WideOf<From>::type, typename WideOf<To>::type>) {
    const WideTag<From> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      const auto first = LoadWide(d, x + i), second = LoadWide(d, x + i + lanes);
      StoreNarrow(first, d, y + i);
      StoreNarrow(second, d, y + i + lanes);
    }
  }
  for (; i < count; ++i) y[i] = Narrow<To>(Widen(x[i]));
}

void Convert(DType from, const void* x, DType to, void* y, int64_t count) {
  VisitFloat(from, [&]<class From>(TypeTag<From>) {
    VisitFloat(to, [&]<class To>(TypeTag<To>) { ConvertTyped(static_cast<const From*>(x), static_cast<To*>(y), count); });
  });
}

template <class From, class To>
void AccumulateTyped(const From* x, To* y, int64_t count) {
  using Wide = typename WideOf<To>::type;
  int64_t i = 0;
  if constexpr (std::is_same_v<typename WideOf<From>::type, Wide>) {
    const WideTag<To> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      const auto first = hn::Add(LoadWide(d, y + i), LoadWide(d, x + i));
      const auto second = hn::Add(LoadWide(d, y + i + lanes), LoadWide(d, x + i + lanes));
      StoreNarrow(first, d, y + i);
      StoreNarrow(second, d, y + i + lanes);
    }
  }
  for (; i < count; ++i) y[i] = Narrow<To>(Widen(y[i]) + static_cast<Wide>(Widen(x[i])));
}

void Accumulate(DType from, const void* x, DType to, void* y, int64_t count) {
  VisitFloat(from, [&]<class From>(TypeTag<From>) {
    VisitFloat(to, [&]<class To>(TypeTag<To>) { AccumulateTyped(static_cast<const From*>(x), static_cast<To*>(y), count); });
  });
}

template <class T>
void ScaleTyped(typename WideOf<T>::type factor, T* y, int64_t count) {
  const WideTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) StoreNarrow(hn::Mul(LoadWide(d, y + i), f), d, y + i);
  for (; i < count; ++i) y[i] = Narrow<T>(Widen(y[i]) * factor);
}

void Scale(DType type, double factor, void* y, int64_t count) {
  VisitFloat(type, [&]<class T>(TypeTag<T>) {
    ScaleTyped(static_cast<typename WideOf<T>::type>(factor), static_cast<T*>(y), count);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Fill);
HWY_EXPORT(Convert);
HWY_EXPORT(Accumulate);
HWY_EXPORT(Scale);

void FillElements(DType type, double value, void* y, int64_t count) { HWY_DYNAMIC_DISPATCH(Fill)(type, value, y, count); }
void ConvertElements(DType from, const void* x, DType to, void* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Convert)(from, x, to, y, count);
}
void AccumulateElements(DType from, const void* x, DType to, void* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Accumulate)(from, x, to, y, count);
}
void ScaleElements(DType type, double factor, void* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Scale)(type, factor, y, count);
}

}  // namespace zeroshard::device
#endif  // HWY_ONCE
