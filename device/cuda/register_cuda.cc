// device/cuda under its name: what the shared object of CUDA brings with it when it is opened.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/cuda/cuda_libraries.h"
#include "zeroshard/device/cuda/gpus.h"
#include "zeroshard/device/cuda/near_host.h"
#include "zeroshard/device/device_registry.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

absl::StatusOr<int> CountGpus() {
  ZS_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, FindGpus());
  return static_cast<int>(gpus.size());
}

// A launcher may show each rank its own GPU alone, or all ranks all of them.
absl::StatusOr<Gpu> RanksGpu(const DeviceOptions& options) {
  ZS_ASSIGN_OR_RETURN(const std::vector<Gpu> visible, FindGpus());
  const auto gpus = static_cast<int>(visible.size());
  const int ordinal = gpus == 1 ? 0 : options.local_rank;
  if (ordinal >= gpus) {
    return absl::FailedPreconditionError(absl::StrCat("too few GPUs: this machine's rank ", options.local_rank,
                                                      " wants one of its own, ", gpus, " are visible; start at most ", gpus,
                                                      " ranks here"));
  }
  const Gpu& gpu = visible[static_cast<size_t>(ordinal)];
  ZS_RETURN_IF_ERROR(CheckArchitecture(gpu));
  return gpu;
}

// The rank's thread stays near it.
absl::StatusOr<std::unique_ptr<Device>> MakeRanksGpu(const DeviceOptions& options) {
  ZS_ASSIGN_OR_RETURN(const Gpu gpu, RanksGpu(options));
  ZS_RETURN_IF_ERROR(StayNear(FindNearHost(gpu.bus_id)));
  return MakeCudaDevice({.ordinal = gpu.ordinal, .threads = options.threads});
}

absl::StatusOr<int64_t> MemoryOfRanksGpu(const DeviceOptions& options) {
  ZS_ASSIGN_OR_RETURN(const Gpu gpu, RanksGpu(options));
  return gpu.memory_bytes;
}

int64_t LeftOnGpu(const Device& device) { return static_cast<const CudaDevice&>(device).FreeBytes(); }

std::string UuidOf(const Device& device) { return static_cast<const CudaDevice&>(device).gpu().uuid; }

[[maybe_unused]] const bool registered = RegisterDevice("cuda", {.count = &CountGpus,
                                                                 .memory = &MemoryOfRanksGpu,
                                                                 .make = &MakeRanksGpu,
                                                                 .free_bytes = &LeftOnGpu,
                                                                 .libraries = &LoadedLibraries,
                                                                 .identity = &UuidOf});

}  // namespace
}  // namespace zeroshard::device::cuda
