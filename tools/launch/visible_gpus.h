// Which GPUs ranks of this machine would have, and whether they could work: known before any rank is started.
//
// A process that starts ranks stays without CUDA: it has a child look.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(VisibleGpus gpus, LookAtGpusElsewhere({.backend = "nccl"}));
//   if (gpus.count < 8) ...
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace zeroshard::tools {

struct GpuWish {
  std::string backend = {};    // looks for what it needs here, too
  std::string interface = {};  // as comm::BackendOptions has it
  int first = 0;               // local rank
  int ranks = 0;               // of this machine, from the first on; 0: one for each GPU
  bool share = false;
};

struct VisibleGpus {
  int count = 0;
  int64_t least_bytes = 0;  // of memory, of those that the ranks would have
};

// Opens the library of CUDA; initialises no GPU. Fewer GPUs than ranks are no error.
// Errors: as OpenCudaLibrary; kFailedPrecondition: why there is none that they could use ("no NVIDIA driver: ..."); the backend's
// (comm::CheckSurroundings).
absl::StatusOr<VisibleGpus> LookAtGpus(const GpuWish& wish);

// The same in a child process, whose end it waits for. This one has no threads yet. Errors: kFailedPrecondition, with the child's words.
absl::StatusOr<VisibleGpus> LookAtGpusElsewhere(const GpuWish& wish);

}  // namespace zeroshard::tools
