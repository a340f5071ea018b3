#include "zeroshard/device/cpu/cpu_elementwise.h"

#include <cstddef>
#include <cstring>
#include <span>

#include "zeroshard/device/cpu/elementwise_kernels.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/kernel_checks.h"

namespace zeroshard::device {
namespace {

using std::byte;

// Elements that one thread takes at a time: 256 KiB of fp32, some ten microseconds of memory traffic.
constexpr int64_t kGrain = 64 << 10;

}  // namespace

void CpuElementwise::Fill(Stream& stream, Out y, double value) {
  const auto fill = [](std::span<byte> to, DType type, double v, int threads) {
    const int64_t size = SizeOf(type);
    ParallelFor(threads, static_cast<int64_t>(to.size()) / size, kGrain,
                [&](int64_t first, int64_t last) { FillElements(type, v, to.data() + first * size, last - first); });
  };
  HostLaunch(stream, "fill", fill, Write<byte>(y), y.array.dtype(), value, threads_);
}

void CpuElementwise::Copy(Stream& stream, In x, Out y) {
  kernel_checks::Copy(x.array, y.array);
  const auto copy = [](std::span<const byte> from, std::span<byte> to, int threads) {
    if (from.data() == to.data()) return;
    ParallelFor(threads, static_cast<int64_t>(to.size()), 4 * kGrain, [&](int64_t first, int64_t last) {
      std::memcpy(to.data() + first, from.data() + first, static_cast<size_t>(last - first));
    });
  };
  HostLaunch(stream, "copy", copy, Read<byte>(x), Write<byte>(y), threads_);
}

void CpuElementwise::Convert(Stream& stream, In x, Out y) {
  kernel_checks::Convert(x.array, y.array);
  const auto convert = [](std::span<const byte> from, std::span<byte> to, DType x_type, DType y_type, int threads) {
    const int64_t count = static_cast<int64_t>(to.size()) / SizeOf(y_type);
    ParallelFor(threads, count, kGrain, [&](int64_t first, int64_t last) {
      ConvertElements(x_type, from.data() + first * SizeOf(x_type), y_type, to.data() + first * SizeOf(y_type),
                      last - first);
    });
  };
  HostLaunch(stream, "convert", convert, Read<byte>(x), Write<byte>(y), x.array.dtype(), y.array.dtype(), threads_);
}

void CpuElementwise::Accumulate(Stream& stream, In x, InOut y) {
  kernel_checks::Accumulate(x.array, y.array);
  const auto accumulate = [](std::span<const byte> from, std::span<byte> to, DType x_type, DType y_type, int threads) {
    const int64_t count = static_cast<int64_t>(to.size()) / SizeOf(y_type);
    ParallelFor(threads, count, kGrain, [&](int64_t first, int64_t last) {
      AccumulateElements(x_type, from.data() + first * SizeOf(x_type), y_type, to.data() + first * SizeOf(y_type),
                         last - first);
    });
  };
  HostLaunch(stream, "accumulate", accumulate, Read<byte>(x), Update<byte>(y), x.array.dtype(), y.array.dtype(), threads_);
}

void CpuElementwise::Scale(Stream& stream, InOut y, double factor) {
  kernel_checks::Scale(y.array);
  const auto scale = [](std::span<byte> to, DType type, double f, int threads) {
    const int64_t size = SizeOf(type);
    ParallelFor(threads, static_cast<int64_t>(to.size()) / size, kGrain,
                [&](int64_t first, int64_t last) { ScaleElements(type, f, to.data() + first * size, last - first); });
  };
  HostLaunch(stream, "scale", scale, Update<byte>(y), y.array.dtype(), factor, threads_);
}

}  // namespace zeroshard::device
