#include "zeroshard/backends/nccl/comm_handle.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "zeroshard/backends/nccl/nccl_errors.h"

namespace zeroshard::backends {
namespace {

// A call that does not block has left by then; one that blocks is what the abort is for.
constexpr std::chrono::milliseconds kLeaveWithin{200};

}  // namespace

void LeaveProcess(const absl::Status& cause, absl::Duration patience) {
  constexpr int kExitPeerLost = 4;
  const std::string message = absl::StrCat("error: ", cause.message(), "; ncclCommAbort has not come back within ",
                                           absl::FormatDuration(patience), ", so this process leaves at once\n");
  std::fputs(message.c_str(), stderr);
  std::fflush(stderr);
  _exit(kExitPeerLost);
}

void CommHandle::End::Set() {
  std::lock_guard<std::mutex> lock(mutex);
  done = true;
  changed.notify_all();
}

CommHandle::CommHandle(ncclComm_t comm) : comm_(comm), end_(std::make_shared<End>()) { ncclCommCuDevice(comm_, &device_); }

bool CommHandle::Enter() {
  std::lock_guard<std::mutex> lock(mutex_);
  inside_ = !closed_;
  return inside_;
}

void CommHandle::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  inside_ = false;
  left_.notify_all();
}

bool CommHandle::closed() {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

absl::Status CommHandle::AsyncError() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return absl::OkStatus();
  ncclResult_t error = ncclSuccess;
  const absl::Status asked = NcclStatus(ncclCommGetAsyncError(comm_, &error), "ncclCommGetAsyncError");
  if (!asked.ok() || error == ncclInProgress) return asked;
  return NcclStatus(error, "NCCL's own threads");
}

bool CommHandle::Abort(absl::Duration patience) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (closed_) return true;
    closed_ = true;
    left_.wait_for(lock, kLeaveWithin, [this] { return !inside_; });
  }
  // NCCL puts back which device the thread had, and that makes a context there: on a new thread it would be device 0.
  std::thread([comm = comm_, device = device_, end = end_] {
    cudaSetDevice(device);
    ncclCommAbort(comm);
    end->Set();
  }).detach();
  return AwaitEnd(patience);
}

bool CommHandle::AwaitEnd(absl::Duration patience) {
  std::unique_lock<std::mutex> lock(end_->mutex);
  return end_->changed.wait_for(lock, absl::ToChronoNanoseconds(patience), [this] { return end_->done; });
}

absl::Status CommHandle::Destroy() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return absl::OkStatus();
    closed_ = true;
  }
  const absl::Status destroyed = NcclStatus(ncclCommDestroy(comm_), "ncclCommDestroy");
  end_->Set();
  return destroyed;
}

}  // namespace zeroshard::backends
