#include "zeroshard/trainer/machine_peak.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {
namespace {

constexpr int64_t kSize = 768;
constexpr int kRepeats = 8;

absl::StatusOr<double> MeasureProductPeak(device::Device& device) {
  using Clock = std::chrono::steady_clock;
  const int64_t elements = kSize * kSize;
  ZS_ASSIGN_OR_RETURN(const auto product, device.PlanGemm({.m = kSize, .k = kSize, .n = kSize}));
  ZS_ASSIGN_OR_RETURN(const device::Buffer buffer,
                      device.Allocate(3 * elements * 4, device::Use::kActivations, "peak measurement"));
  const device::Array all = buffer.array(device::DType::kFloat32);
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  double least_s = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const Clock::time_point start = Clock::now();
    product->Run(*stream, all.Slice(0, elements), all.Slice(elements, elements), all.Slice(2 * elements, elements));
    stream->Synchronize();
    const double s = std::chrono::duration<double>(Clock::now() - start).count();
    least_s = i == 0 ? s : std::min(least_s, s);
  }
  ZS_RETURN_IF_ERROR(device.status());
  return 2.0 * kSize * kSize * kSize / std::max(least_s, 1e-9);
}

}  // namespace

absl::StatusOr<double> ProductPeak(device::Device& device, device::DType dtype) {
  const double told = device.PeakFlops(dtype);
  return told > 0 ? told : MeasureProductPeak(device);
}

}  // namespace zeroshard::trainer
