// The reduced gradients of this rank's part in host memory: stages 2 and 3 under optimizer offload. They land from memory in
// flight, add up over micro-batches there, and are read there by the norm and the update.
//
// A thread of its own copies and adds, so that neither the rank's thread nor its compute stream does. Elements are those of the
// flat state (holding.h), from OffloadPlan::first on.
//
// Example:
//   landed->Expect();
//   host->Land({.part = reduced, .first = 4096, .accumulate = true, .ready = ready, .landed = landed});
//   ...
//   host->Drain();
//   optimizer.Apply(cores, {.gradients = host->Of({4096, 700}), ...});
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/offload/host_thread.h"
#include "zeroshard/zero/offload/offload_plan.h"

namespace zeroshard::zero {

// Elements that come down together, twice: large enough for a bus's full speed, small enough for a cache.
inline constexpr int64_t kLandingElements = int64_t{1} << 18;
// Bytes of the host's memory that HostGradients takes beside the gradients.
inline int64_t LandingBytes(const OffloadPlan& plan) {
  return 2 * std::min(kLandingElements, plan.offloaded()) * SizeOf(device::DType::kFloat32);
}

class HostGradients {
 public:
  struct Landing {
    device::Array part;       // reduced, in device memory, in any float dtype
    int64_t first = 0;        // of the state
    bool accumulate = false;  // added to what is there
    // `part` may be read; recorded before the call, and not again until it has landed.
    const device::Event* ready = nullptr;
    // Recorded when `part` was read; the caller called Expect. Null: not asked for.
    device::Event* landed = nullptr;
  };

  // Zeros of `dtype`, in the ledger of the device's host. References outlive it.
  static absl::StatusOr<std::unique_ptr<HostGradients>> Create(device::Device& device, const OffloadPlan& plan,
                                                               device::DType dtype);

  // Return at once.
  void Land(const Landing& landing);
  void Zero(Range range);
  // Returns when all of that is done.
  void Drain() { thread_->Drain(); }
  // Of the state: what is here.
  Range elements() const { return {plan_.first, plan_.offloaded()}; }
  // [range.count] in host memory, of the dtype; to be touched after Drain.
  device::Array Of(Range range) const { return memory_.array(dtype_).Slice(range.first - plan_.first, range.count); }

  // The largest magnitude; NaN where any is. Waits.
  float Largest(Range range);
  // to = the gradients, fp32, and back. Wait, on `stream` too.
  void Read(device::Stream& stream, Range range, const device::Array& to);
  void Write(device::Stream& stream, Range range, const device::Array& from);

 private:
  HostGradients(device::Device& device, const OffloadPlan& plan, device::DType dtype);
  void Post(const Landing& landing);
  void Run(const Landing& landing);
  // target (+)= part, which may be read on down_.
  void Copy(const device::Array& part, const device::Array& target, bool accumulate);
  // Half of the staging memory, [count] of `dtype`.
  device::Array Staging(int64_t piece, device::DType dtype, int64_t count) const;

  device::Device* device_;
  device::Device* host_;
  const OffloadPlan plan_;
  const device::DType dtype_;
  device::Buffer memory_;
  device::Buffer staging_;
  // Of jobs that wait, the one that runs, and the one that is being posted.
  std::array<Landing, HostThread::kMostJobs + 2> landings_;
  int64_t posted_ = 0;
  std::array<std::unique_ptr<device::Event>, 2> came_;
  std::unique_ptr<device::Stream> down_;
  std::unique_ptr<device::Stream> cores_;  // the host's
  std::unique_ptr<HostThread> thread_;
};

}  // namespace zeroshard::zero
