#include "zeroshard/device/late/test_devices.h"

#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/cuda/doubles/test_cuda_device.h"

namespace zeroshard::device {

std::vector<TestDevice> TestDevices() {
  return {{"cuda", []() -> std::unique_ptr<Device> { return cuda::doubles::MakeTestCudaDevice(); }}};
}

std::unique_ptr<Device> MakeOrderedDevice(const LateOptions& order, std::optional<WaitPoint> left_out) {
  return cuda::doubles::MakeTestCudaDevice(order, left_out);
}

std::vector<WaitPoint> WaitsOf(Device& device) {
  return cuda::doubles::Waits(static_cast<cuda::CudaDevice&>(device).gpu().ordinal);
}

}  // namespace zeroshard::device
