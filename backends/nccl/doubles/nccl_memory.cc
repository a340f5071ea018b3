// The double of NCCL: memory, and its registration. See nccl_control.h.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/backends/nccl/doubles/live_comms.h"
#include "zeroshard/backends/nccl/doubles/nccl_control.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends::doubles {
namespace {

std::atomic<bool> windows{true}, register_fails{false};
std::atomic<int> window_fails{-1};
std::atomic<int64_t> pieces{0};

}  // namespace

void SetNcclWindows(bool supported) { windows = supported; }
void SetNcclWindowFails(int rank) { window_fails = rank; }
void SetNcclRegisterFails(bool fails) { register_fails = fails; }

int64_t NcclPieces() { return pieces; }
int64_t NcclRegistrations() { return CountRegistrations(); }

}  // namespace zeroshard::backends::doubles

using namespace zeroshard::backends::doubles;  // NOLINT(google-build-using-namespace): the functions are C's
using zeroshard::device::EndTest;

extern "C" {

ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  if (cudaMalloc(address, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  ++pieces;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* address) {
  if (IsRegistered(address)) EndTest("ncclMemFree of memory that is registered");
  --pieces;
  return cudaFree(address) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* address, size_t bytes, void** handle) {
  if (register_fails) return ncclInvalidUsage;
  Register(LiveCommHere(comm, "ncclCommRegister"), address, {bytes, false});
  *handle = address;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  Deregister(LiveCommHere(comm, "ncclCommDeregister"), handle, "ncclCommDeregister");
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* address, size_t bytes, ncclWindow_t* window, int flags) {
  ncclComm& on = LiveCommHere(comm, "ncclCommWindowRegister");
  if (flags != NCCL_WIN_COLL_SYMMETRIC) EndTest("a window that is not symmetric, which ours always is");
  if (bytes % NCCL_WIN_REQUIRED_ALIGNMENT != 0) EndTest("a window of no whole pages");
  const std::vector<int64_t> sizes =
      on.state->shared->Exchange(on.state->rank, static_cast<int64_t>(bytes), on.state->aborted);
  if (sizes.empty()) return ncclRemoteError;
  for (size_t r = 0; r < sizes.size(); ++r) {
    if (sizes[r] != static_cast<int64_t>(bytes)) {
      EndTest(absl::StrCat("a symmetric window of ", bytes, " bytes on rank ", on.state->rank, " and of ", sizes[r],
                           " on rank ", r));
    }
  }
  *window = nullptr;
  if (on.state->rank == window_fails) return ncclSystemError;
  if (!windows) return ncclSuccess;
  Register(on, address, {bytes, true, ++on.windows});
  *window = static_cast<ncclWindow_t>(address);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  Deregister(LiveCommHere(comm, "ncclCommWindowDeregister"), window, "ncclCommWindowDeregister");
  return ncclSuccess;
}

}  // extern "C"
