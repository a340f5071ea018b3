#include "zeroshard/device/cpu/cpu_attention.h"

#include "absl/status/status.h"

namespace zeroshard::device {

absl::StatusOr<std::unique_ptr<Attention>> PlanCpuAttention(const AttentionSpec&, int) {
  return absl::UnimplementedError("no attention on the CPU yet");
}

}  // namespace zeroshard::device
