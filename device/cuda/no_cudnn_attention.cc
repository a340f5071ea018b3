#include "zeroshard/device/cuda/cudnn_attention.h"

namespace zeroshard::device::cuda {

absl::StatusOr<std::unique_ptr<Attention>> PlanCudnnAttention(const AttentionSpec&, Device&, CudaStream&) {
  return absl::UnimplementedError("cuDNN's attention is not built in");
}

absl::Status CheckCudnnGraphs(const AttentionSpec&, const std::string&, int) {
  return absl::UnimplementedError("cuDNN's attention is not built in");
}

}  // namespace zeroshard::device::cuda
