#include "zeroshard/device/cpu/row_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/row_sums.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "zeroshard/device/cpu/lanes16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroshard::device {
namespace HWY_NAMESPACE {

void Columns(const RowSums& sums, int64_t first, int64_t last) {
  const int64_t count = last - first, width = sums.width;
  float total[kColumnsPerSum] = {};
  const float* x = sums.x + first;
  int64_t row = 0;
  for (; row + 4 <= sums.rows; row += 4, x += 4 * width) {
    ForLanes(count, [&](int64_t i, auto part) ZS_LANES {
      const F16 a = Add(Load(x + i, part), Load(x + width + i, part));
      const F16 b = Add(Load(x + 2 * width + i, part), Load(x + 3 * width + i, part));
      Store(Add(Load(total + i, part), Add(a, b)), total + i, part);
    });
  }
  for (; row < sums.rows; ++row, x += width) {
    ForLanes(count,
             [&](int64_t i, auto part) ZS_LANES { Store(Add(Load(total + i, part), Load(x + i, part)), total + i, part); });
  }
  float* sum = sums.sum + first;
  for (int64_t i = 0; i < count; ++i) sum[i] = sums.accumulate ? sum[i] + total[i] : total[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroshard::device
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroshard::device {

HWY_EXPORT(Columns);

void SumRowsOfColumns(const RowSums& sums, int64_t first, int64_t last) { HWY_DYNAMIC_DISPATCH(Columns)(sums, first, last); }

}  // namespace zeroshard::device
#endif  // HWY_ONCE
