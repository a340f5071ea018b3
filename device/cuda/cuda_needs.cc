#include "zeroshard/device/cuda/cuda_needs.h"

#include "zeroshard/device/device_needs.h"

namespace zeroshard::device::cuda {
namespace {

[[maybe_unused]] const bool kRegistered = RegisterNeeds(
    "cuda", {.own_bytes = kStepScratchBytes, .product_bytes = kProductWorkspaceBytes, .loss_blocks = &CudaLossBlocks});

}  // namespace
}  // namespace zeroshard::device::cuda
