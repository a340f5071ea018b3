// Causal attention on host memory, for device/cpu and device/late.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/attention.h"

namespace zeroshard::device {

absl::StatusOr<std::unique_ptr<Attention>> PlanCpuAttention(const AttentionSpec& spec, int threads);

}  // namespace zeroshard::device
