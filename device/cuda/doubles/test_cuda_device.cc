#include "zeroshard/device/cuda/doubles/test_cuda_device.h"

#include <atomic>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::doubles {

std::unique_ptr<CudaDevice> MakeTestCudaDevice(const LateOptions& order, std::optional<WaitPoint> left_out) {
  constexpr int kGpus = 8;
  static std::atomic<int> made{0};
  SetDevices(kGpus);
  SetOrder(order);
  const int ordinal = made++ % kGpus;
  if (left_out) LeaveOutWait(ordinal, *left_out);
  auto device = MakeCudaDevice({.ordinal = ordinal, .piece_bytes = 0});
  if (!device.ok()) EndTest(absl::StrCat("no device: ", device.status().message()));
  return *std::move(device);
}

}  // namespace zeroshard::device::cuda::doubles
