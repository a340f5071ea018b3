// A GeluGemm of two operations, the device's product and its GELU: for devices that have no kernel for both.
//
// Example:
//   absl::StatusOr<std::unique_ptr<GeluGemm>> PlanGeluGemm(const GemmSpec& spec) override { return PlanGeluAfterGemm(*this, spec); }
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/gelu_gemm.h"

namespace zeroshard::device {

// Errors: as Device::PlanGeluGemm.
absl::StatusOr<std::unique_ptr<GeluGemm>> PlanGeluAfterGemm(Device& device, const GemmSpec& spec);

}  // namespace zeroshard::device
