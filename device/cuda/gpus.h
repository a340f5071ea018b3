// Which GPUs this process can use, or why it can use none.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, FindGpus());
//   LOG(INFO) << gpus[0].name << " at " << gpus[0].bus_id;
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/dtype.h"

namespace zeroshard::device::cuda {

struct Gpu {
  int ordinal = 0;                // as cudaSetDevice counts the visible ones
  std::string name = {};          // "NVIDIA H100 80GB HBM3"
  std::string architecture = {};  // "sm_90"
  int capability = 0;             // 90
  std::string uuid = {};          // "GPU-...", the same on every process and after every reboot
  std::string bus_id = {};        // "0000:1b:00.0"
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
  double clock_hz = 0;  // the highest
};

// Floating-point operations a second of dense products with fp32 sums, without TF32: by the maker's data sheet for cards that it names, else
// by what a multiprocessor of the architecture does in a cycle, at the highest clock. 0: of an architecture that we do not know.
double DensePeakFlops(const Gpu& gpu, DType dtype);

// All visible ones. Initialises no GPU.
// Errors, all kFailedPrecondition: "no NVIDIA driver: ..."; a driver that is too old, with the version that it has and the one needed; no
// visible device.
absl::StatusOr<std::vector<Gpu>> FindGpus();

// Errors: kFailedPrecondition where the card is older than all that was built, with both. Loads nothing.
absl::Status CheckArchitecture(const Gpu& gpu);

// Loads every kernel that was linked in on this thread's device: nothing is loaded later, while a collective spins.
// Errors: kFailedPrecondition where the card has no image of one, with the architectures that were built.
absl::Status LoadKernels(const Gpu& gpu);

}  // namespace zeroshard::device::cuda
