#include "zeroshard/device/cuda/cudnn_attention.h"

namespace zeroshard::device::cuda {

int64_t CudnnVersion() { return 0; }

absl::StatusOr<std::unique_ptr<Attention>> PlanCudnnAttention(const AttentionSpec&, Device&, CudaStream&) {
  return absl::UnimplementedError(kNoCudnn);
}

absl::Status CheckCudnnGraphs(const AttentionSpec&, const std::string&, int) { return absl::UnimplementedError(kNoCudnn); }

}  // namespace zeroshard::device::cuda
