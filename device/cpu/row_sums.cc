#include "zeroshard/device/cpu/row_sums.h"

#include "zeroshard/device/convert.h"
#include "zeroshard/device/dtype_visitor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/row_sums.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/lanes16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

// total[count] = the sum of the rows, which start `width` apart.
template <class T>
void ColumnsTyped(const T* x, int64_t rows, int64_t width, float* total, int64_t count) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4, x += 4 * width) {
    ForLanes(count, [&](int64_t i, auto part) ZS_LANES {
      const F16 a = Add(Load(x + i, part), Load(x + width + i, part));
      const F16 b = Add(Load(x + 2 * width + i, part), Load(x + 3 * width + i, part));
      Store(Add(Load(total + i, part), Add(a, b)), total + i, part);
    });
  }
  for (; row < rows; ++row, x += width) {
    ForLanes(count,
             [&](int64_t i, auto part) ZS_LANES { Store(Add(Load(total + i, part), Load(x + i, part)), total + i, part); });
  }
}

void Columns(const RowSums& sums, int64_t first, float* total, int64_t count) {
  VisitActivation(sums.x_dtype, [&]<class T>(TypeTag<T>) {
    ColumnsTyped(static_cast<const T*>(sums.x) + first, sums.rows, sums.width, total, count);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Columns);

void SumRowsOfColumns(const RowSums& sums, int64_t first, int64_t last) {
  float total[kColumnsPerSum] = {};
  HWY_DYNAMIC_DISPATCH(Columns)(sums, first, total, last - first);
  VisitActivation(sums.sum_dtype, [&]<class T>(TypeTag<T>) {
    T* const sum = static_cast<T*>(sums.sum) + first;
    for (int64_t i = 0; i < last - first; ++i) {
      sum[i] = Narrow<T>(sums.accumulate ? Widen(sum[i]) + total[i] : total[i]);
    }
  });
}

}  // namespace zeroshard::device
#endif  // HWY_ONCE
