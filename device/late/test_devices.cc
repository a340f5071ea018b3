#include "zeroshard/device/late/test_devices.h"

#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/late/late_device.h"

namespace zeroshard::device {

std::vector<TestDevice> TestDevices() {
  return {{"cpu", [] { return MakeCpuDevice(); }}, {"late", []() -> std::unique_ptr<Device> { return MakeLateDevice(); }}};
}

std::unique_ptr<Device> MakeOrderedDevice(const LateOptions& order, std::optional<WaitPoint> left_out) {
  std::unique_ptr<LateDevice> device = MakeLateDevice(order);
  if (left_out) device->LeaveOutWait(*left_out);
  return device;
}

std::vector<WaitPoint> WaitsOf(Device& device) { return static_cast<LateDevice&>(device).waits(); }

}  // namespace zeroshard::device
