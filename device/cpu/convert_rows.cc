#include "zeroshard/device/cpu/convert_rows.h"

#include <cstddef>
#include <cstring>

#include "zeroshard/device/cpu/elementwise_kernels.h"

namespace zeroshard::device {

void ConvertRows(const RowsIn& from, const RowsOut& to, int64_t rows, int64_t width) {
  if (from.stride == width && to.stride == width) {
    width *= rows;
    rows = 1;
  }
  const auto* x = static_cast<const std::byte*>(from.data);
  auto* y = static_cast<std::byte*>(to.data);
  const int64_t x_bytes = from.stride * SizeOf(from.dtype), y_bytes = to.stride * SizeOf(to.dtype);
  for (int64_t row = 0; row < rows; ++row, x += x_bytes, y += y_bytes) {
    if (from.dtype == to.dtype) {
      std::memcpy(y, x, static_cast<size_t>(width * SizeOf(to.dtype)));
    } else {
      ConvertElements(from.dtype, x, to.dtype, y, width);
    }
  }
}

}  // namespace zeroshard::device
