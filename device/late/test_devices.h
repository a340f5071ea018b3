// The devices that a suite of device, model, optim or zero runs on. A test's target says which by the library that it links:
// //device/late:test_devices (cpu, late), or //device/cuda/doubles:test_devices (cuda).
//
// Example:
//   INSTANTIATE_TEST_SUITE_P(Devices, OptimizerTest, testing::ValuesIn(TestDevices()), NameOfTestDevice);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/late/late_options.h"

namespace zeroshard::device {

struct TestDevice {
  const char* name;
  std::unique_ptr<Device> (*make)();
};

std::vector<TestDevice> TestDevices();
// The first of them, for what need not be tried on each: cpu, or cuda.
inline std::unique_ptr<Device> MakeTestDevice() { return TestDevices().front().make(); }

// The one of them whose streams run as `order` says, and which ends the test at two unordered accesses: late, or cuda. `left_out`: a wait
// that orders nothing.
std::unique_ptr<Device> MakeOrderedDevice(const LateOptions& order, std::optional<WaitPoint> left_out = std::nullopt);
// Every wait so far, of all streams of a device that MakeOrderedDevice gave, that ordered anything.
std::vector<WaitPoint> WaitsOf(Device& device);

inline std::string NameOfTestDevice(const testing::TestParamInfo<TestDevice>& info) { return info.param.name; }

}  // namespace zeroshard::device
