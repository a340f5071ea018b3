// Where the offloaded part of masters and moments lives: host memory, or a file of which some sub-groups are in buffers.
//
// The update takes sub-groups in order: Fetch, Await, work on Of, Store. At most OffloadPlan::buffers of them are between Fetch
// and Store's end at once; a Fetch into a buffer that is still being written waits for it. Used by one thread at a time.
//
// Example:
//   ZS_RETURN_IF_ERROR(tier->Fetch(g));             // begins
//   ...
//   ZS_RETURN_IF_ERROR(tier->Await(g));
//   Array exp_avg = tier->Of(/*state=*/1, g);       // [count] fp32
//   tier->Store(g);                                 // begins
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/device.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/offload/offload_plan.h"

namespace zeroshard::zero {

class StateTier {
 public:
  virtual ~StateTier() = default;

  // Errors: kDataLoss, from a file.
  virtual absl::Status Fetch(int64_t group) = 0;
  virtual absl::Status Await(int64_t group) = 0;
  virtual void Store(int64_t group) = 0;
  // [elements of the sub-group] fp32, in host memory, from Await to Store.
  virtual device::Array Of(int state, int64_t group) const = 0;

  // Between updates: `range` of the flat state, within one sub-group, in host memory until Close, which keeps what was written
  // there.
  // Errors: kDataLoss, from a file.
  virtual absl::StatusOr<device::Array> Open(int state, Range range) = 0;
  virtual absl::Status Close(bool written) = 0;
};

// Zeros, in `host`'s ledger; the first `masters` of plan.states are master weights. References outlive it.
absl::StatusOr<std::unique_ptr<StateTier>> MakeHostTier(device::Device& host, const OffloadPlan& plan, int masters);
// `owner`: see StateFileOptions. Errors: those of StateFile::Create too.
absl::StatusOr<std::unique_ptr<StateTier>> MakeFileTier(device::Device& host, const OffloadPlan& plan,
                                                        const std::string& folder, const void* owner);

}  // namespace zeroshard::zero
