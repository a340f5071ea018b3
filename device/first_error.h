// The first error that operations of a device met: it stays, and later ones are dropped.
//
// Thread-safe. Setting no error allocates nothing.
//
// Example:
//   error.Keep(absl::InternalError("oneDNN matmul [4 x 8] x [8 x 2]: out of memory"));
//   error.status();
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "absl/status/status.h"

namespace zeroshard::device {

class FirstError {
 public:
  // Keeps `status` if it is an error and the first one.
  void Keep(absl::Status status) {
    if (status.ok()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.ok()) return;
    status_ = std::move(status);
    set_.store(true, std::memory_order_release);
  }

  absl::Status status() const {
    if (!set_.load(std::memory_order_acquire)) return absl::OkStatus();
    std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> set_{false};
  absl::Status status_;
};

}  // namespace zeroshard::device
