// HostMemoryView: an operation's arrays as host memory: themselves, or staged a piece at a time where the host cannot touch them.
//
// Staged: pieces of columns go from the device into staging memory (CopyToHost), through the schedule, and back (CopyFromHost), in
// the order of the communication stream. All ranks stage alike, in pieces of one size.
//
// Example:
//   ZS_RETURN_IF_ERROR(view.Bind(operation));
//   ... view.call(): headers ...
//   if (!view.staged()) return RunSchedule(exchange, view.call(), choice);
//   return view.RunStaged([&](const HostCall& call) { return RunSchedule(exchange, call, choice); });
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/operation.h"
#include "zeroshard/comm/schedules/host_call.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::comm {

class HostMemoryView {
 public:
  // Of which Create allocates as many where the device's memory cannot be touched by the host.
  static int64_t StagingBytes(int world_size, int64_t staging_bytes);
  // Allocates StagingBytes where the device's memory cannot be touched by the host.
  static absl::StatusOr<HostMemoryView> Create(device::Device& device, device::Stream& stream, int rank, int world_size,
                                               int64_t staging_bytes);

  // Makes `operation` the one that is viewed; touches none of its data.
  // Errors: kInternal memory that the host cannot touch on a device where it can.
  absl::Status Bind(const Operation& operation);
  // Its arrays on the host, but empty ones; staged: only kind, dtypes and counts mean something.
  const HostCall& call() const { return call_; }
  // Bytes of a piece; 0: not staged.
  int64_t staged_bytes() const { return staged_ ? staging_bytes_ : 0; }

  // Whether its data has to be brought to the host: there is some, which the host cannot touch.
  bool staged() const { return staged_ && !segments_.empty(); }
  // Runs `schedule` over all of it, a piece at a time, with its data on the host.
  absl::Status RunStaged(absl::FunctionRef<absl::Status(const HostCall&)> schedule);
  // Tests: fills outputs that hold no input with 0xFF bytes. Not staged ones.
  void PoisonOutputs();

 private:
  HostMemoryView(device::Device& device, device::Stream& stream, int rank, int world_size)
      : device_(&device), stream_(&stream), rank_(rank), world_size_(world_size) {}

  bool reads() const { return call_.kind != OpKind::kBroadcast || call_.root == rank_; }
  bool writes() const { return call_.kind != OpKind::kReduce || call_.root == rank_; }
  absl::Status RunSegment(const Segment& segment, absl::FunctionRef<absl::Status(const HostCall&)> schedule);
  void CopyIn(const Segment& segment, const Stretch& columns, std::byte* in);
  void CopyOut(const Segment& segment, const Stretch& columns, const std::byte* out);

  device::Device* device_;
  device::Stream* stream_;
  int rank_;
  int world_size_;
  device::Buffer staging_;
  std::byte* staging_data_ = nullptr;
  int64_t staging_bytes_ = 0;

  const Operation* operation_ = nullptr;
  bool staged_ = false;
  HostCall call_;
  std::vector<HostSegment> segments_;
};

}  // namespace zeroshard::comm
