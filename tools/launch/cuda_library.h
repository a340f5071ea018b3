// The shared object that holds device/cuda and backends/nccl, opened where a run asks for it, so that no other run pays for it: the vendor's
// libraries take 0.2 GB and 0.1 s of each process that is linked to them.
//
// It lies beside the program (libzeroshard_cuda.so), or where ZEROSHARD_CUDA_LIBRARY says; a test has it name the one that stands on
// doubles. Opened, it has registered device "cuda" and its backends.
//
// Example:
//   ZS_RETURN_IF_ERROR(OpenCudaLibrary());
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<device::Device> device, device::MakeDevice("cuda", {.local_rank = 0}));
#pragma once

#include "absl/status/status.h"

namespace zeroshard::tools {

// Once for the process; later calls give the first one's answer.
// Errors: kFailedPrecondition where it was not built, or cannot be opened, with the loader's words.
absl::Status OpenCudaLibrary();

}  // namespace zeroshard::tools
