// device/cuda: a GPU of NVIDIA's as a Device.
//
// Memory comes from a few large pieces (cuda_memory.h, pinned_memory.h); products are cuBLASLt's, attention is cuDNN's in bf16 and fp16
// and ours in fp32, all else our kernels. Everything is loaded, and every plan runs once, when it is made: once all is planned nothing of CUDA's is allocated
// or loaded any more, which NCCL's kernels could not bear. A fault of the GPU is the device's status from then on, and ends all work.
//
// Methods may be called from any thread. What is the device's goes before the device.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, MakeCudaDevice({.ordinal = local_rank}));
//   std::unique_ptr<Stream> compute = device->MakeStream(StreamKind::kCompute);
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/cuda/gpus.h"
#include "zeroshard/device/device.h"

namespace zeroshard::device::cuda {

struct CudaDeviceOptions {
  int ordinal = 0;  // among the visible ones
  int threads = 1;  // of the host beside it
  // How much memory is taken from CUDA at a time; 0: as much as each allocation wants, so that the doubles see where each ends.
  int64_t piece_bytes = int64_t{64} << 20;
};

class CudaDevice : public Device {
 public:
  virtual const Gpu& gpu() const = 0;
  // What is in use on the card now, by whomever, in bytes.
  virtual int64_t UsedBytes() const = 0;
  // As CudaDeviceOptions has it; for memory that others take from the card beside the device.
  virtual int64_t piece_bytes() const = 0;
  // What is left on it; all where CUDA does not say.
  virtual int64_t FreeBytes() const = 0;
};

// Errors: as FindGpus; kInvalidArgument for an ordinal that is not there; as LoadKernels; kResourceExhausted.
absl::StatusOr<std::unique_ptr<CudaDevice>> MakeCudaDevice(const CudaDeviceOptions& options = {});

}  // namespace zeroshard::device::cuda
