#include "zeroshard/backends/nccl/pace.h"

#include <chrono>
#include <thread>

#include "zeroshard/device/device.h"

namespace zeroshard::backends {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{50};

}  // namespace

// An event that was never recorded is done.
Pace::Pace(device::Stream& stream, CommHandle& handle) : stream_(stream), handle_(handle) {
  for (auto& end : ends_) end = stream.device().MakeEvent();
}

absl::Status Pace::Take(int entries) {
  if (in_window_ >= kWindow) {
    stream_.Record(*ends_[oldest_]);
    oldest_ = (oldest_ + 1) % kWindows;
    in_window_ = 1;
    while (!handle_.closed() && !ends_[oldest_]->Done()) std::this_thread::sleep_for(kBetweenLooks);
  }
  if (handle_.closed()) return absl::CancelledError("the communicator is being aborted");
  in_window_ += entries;
  return absl::OkStatus();
}

}  // namespace zeroshard::backends
