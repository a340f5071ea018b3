// Communicator: the collectives of a group of ranks, whatever carries them.
//
// This face is not virtual: it checks arguments, counts sequence numbers, knows world size 1 and count 0, applies the in-place
// rule, holds the deadline, writes the wire ledger and keeps the first error. A backend implements the private Do... functions.
//
// All ranks of the group make the same calls in the same order; each call returns at once, and the operation runs on the
// communicator's own thread (or stream) once the events in CallOptions::after are done. Operations of one communicator run in
// the order of issue. Arrays stay valid, and are not written (inputs: not even read, where in place), until the Work has ended.
//
// In place is NCCL's rule: all-reduce, broadcast, reduce: in == out; reduce-scatter: out == in + rank * count; all-gather:
// in == out + rank * count. Any other overlap is kInvalidArgument.
//
// Output dtype: a reduction's `out` may have another float dtype than its `in`: bf16 or fp16 in (two bytes on the wire), summed in
// fp32, out as fp32 or rounded once.
//
// Errors, of every collective, given by Work::Wait() and status(): kInvalidArgument the caller's arguments (the communicator
// stays usable: nothing was sent); all others are final, and every later call and outstanding Work gives the first cause:
// kFailedPrecondition aborted, or ranks disagree (what each called is said); kUnavailable a peer is gone; kDeadlineExceeded.
// The message names the rank at fault, operation, sequence number, bytes, and the vendor's own words.
//
// Example:
//   Work work = communicator.ReduceScatter(gradients, shard, ReduceOp::kAverage, {.after = {&backward_done}});
//   ...
//   work.WaitOn(compute);
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/call_options.h"
#include "zeroshard/comm/operation.h"
#include "zeroshard/comm/operation_check.h"
#include "zeroshard/comm/reduce_op.h"
#include "zeroshard/comm/wire_ledger.h"
#include "zeroshard/comm/work.h"
#include "zeroshard/device/brief_lock.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"

namespace zeroshard::comm {

class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  device::Device& device() const { return *device_; }
  // Of what was split off: what it is called, "shard group 4-7"; else empty.
  const std::string& group() const { return group_; }
  WireLedger& wire() { return *wire_; }
  // Whether float sums follow the one tree over ranks (reduce_op.h). Where not, their order is the backend's and nobody promises it:
  // they differ from the tree's by its stated bound, and may from one run to the next.
  bool sums_by_tree() const { return sums_by_tree_; }

  // Every rank gets the reduction over ranks of in [count] in out [count].
  Work AllReduce(device::In in, device::Out out, ReduceOp op, const CallOptions& options = {});
  Work AllReduce(std::span<const Segment> segments, ReduceOp op, const CallOptions& options = {});
  // Rank r gets part r of the reduction of in [world_size * count] in out [count].
  Work ReduceScatter(device::In in, device::Out out, ReduceOp op, const CallOptions& options = {});
  Work ReduceScatter(std::span<const Segment> segments, ReduceOp op, const CallOptions& options = {});
  // Every rank gets every rank's in [count], in order of ranks, in out [world_size * count].
  Work AllGather(device::In in, device::Out out, const CallOptions& options = {});
  Work AllGather(std::span<const Segment> segments, const CallOptions& options = {});
  // Rank `root` gets the reduction of in [count] in out [count]; elsewhere `out` is not touched and may be empty.
  Work Reduce(device::In in, device::Out out, ReduceOp op, int root, const CallOptions& options = {});
  Work Reduce(std::span<const Segment> segments, ReduceOp op, int root, const CallOptions& options = {});
  // Every rank gets rank `root`'s in [count] in out [count]; elsewhere `in` is not read and may be empty.
  Work Broadcast(device::In in, device::Out out, int root, const CallOptions& options = {});
  Work Broadcast(std::span<const Segment> segments, int root, const CallOptions& options = {});
  // Ends on no rank before every rank has begun it.
  Work Barrier(const CallOptions& options = {});

  // Collective. A communicator of the ranks that gave the same color (>= 0), ordered by key, then by rank. Color -1: this rank
  // joins none, and gets null. What it sends is in this one's wire ledger too, and the two fail together: a rank that is lost is
  // lost to both. Messages and records call ranks by their rank in the communicator that all others were split from, and what is
  // split off by `name` and its ranks: "shard group 4-7", "replicas 0,2".
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key, std::string_view name = "group");

  // Collective where the backend maps memory between ranks. Memory that peers reach directly; see Device::Allocate.
  absl::StatusOr<device::Buffer> Allocate(int64_t bytes, device::Use use, std::string_view what);

  // OK, or the first error; never blocks.
  absl::Status status() const;
  // Whether there is an error.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Fails this communicator with `cause`; outstanding and later operations end with it, here and, as their peers notice, on the
  // other ranks. Idempotent, from any thread, and returns even if only one rank calls it.
  void Abort(absl::Status cause);
  // Collective: waits for all operations of all ranks, and takes leave. Afterwards every call is kFailedPrecondition.
  absl::Status Finalize();

  // How many operations may be in flight: one more waits in its call until the oldest has ended. Also how long a Work is good for.
  static constexpr int kRing = 256;

 protected:
  // How an operation's end is asked for: Work::event(), WaitOn(), Wait().
  enum class WaitKind : uint8_t { kEvent, kStream, kHost };

  Communicator(device::Device& device, int rank, int world_size);

  // For backends: the operation begins now, all in `after` being done; and it has ended, just before its event is recorded
  // (Finish says so too). For the recorder alone.
  // Begun gives its time, of the recorder's clock: CLOCK_MONOTONIC, as of the last tick where the operation is brief.
  int64_t NoteBegun(const Operation& operation);
  static void NoteEnded(const Operation& operation) { device::Recorder::Ended(operation.record); }
  // For backends, from any thread. The end of an operation that DoStart took: its event was recorded. An error is final.
  void Finish(Operation& operation, const absl::Status& status);
  // Fails the communicator, without DoAbort, and those of its family. The first cause stays.
  void Fail(const absl::Status& cause);
  // For backends whose sums do not follow the tree; before the first operation.
  void LeaveTheTree() { sums_by_tree_ = false; }
  // For destructors of backends, before what DoAbort needs is gone: others of the family do not fail this one any more.
  void LeaveFamily();

 private:
  friend class Work;
  class Ring;
  class Family;

  // Whether the backend has this operation, which is checked; where not, nothing was sent, and the communicator stays usable.
  virtual absl::Status DoCheck(const Operation& /*operation*/) const { return absl::OkStatus(); }
  // Takes an operation of world size 2 and more; it belongs to the backend until Finish. Count 0 comes too, for its header.
  virtual void DoStart(Operation& operation) = 0;
  // Somebody asks for an operation's end: one that wait_at_once held back begins now, on the caller (but for kEvent) or elsewhere.
  // kHost: the caller goes to sleep until Finish; a backend whose operations end unnoticed looks for the end here.
  virtual void DoHurry(uint64_t ticket, WaitKind kind) = 0;
  virtual void DoAbort(const absl::Status& cause) = 0;
  // members[i] becomes rank i; `rank` is the caller's there; `id` counts this communicator's splits.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(std::span<const int> members, int rank, uint64_t id) = 0;
  // This rank joins none of that split: for backends whose splits all ranks take part in.
  virtual absl::Status DoStandAside(uint64_t /*id*/) { return absl::OkStatus(); }
  virtual absl::StatusOr<device::Buffer> DoAllocate(int64_t bytes, device::Use use, std::string_view what);

  Work Issue(OpKind kind, std::span<const Segment> segments, ReduceOp op, int root, const CallOptions& options);
  void RunAlone(Operation& operation);
  // Whether it had not failed before.
  bool FailAlone(const absl::Status& cause);
  std::shared_ptr<Family> FamilyOf() const;
  void JoinFamily(std::shared_ptr<Family> family);
  device::Recorder::Issued Recorded(const Operation& operation, int64_t bytes) const;
  void NoteIssued(Operation& operation) const;
  // The span of a wait for what has this ticket.
  void NoteAwaited(uint64_t ticket, device::Span& span);
  // Itself, or where it was refused what was issued before it: whoever waits for the last of several waits for all of them.
  uint64_t EndsWith(uint64_t ticket) const;
  const device::Event& EventOf(uint64_t ticket);
  void WaitOn(uint64_t ticket, device::Stream& stream);
  absl::Status Wait(uint64_t ticket);

  device::Device* device_;
  int rank_;
  int world_size_;
  std::shared_ptr<WireLedger> wire_;
  std::unique_ptr<Ring> ring_;
  bool sums_by_tree_ = true;
  OverlapRoom room_;
  device::Track track_;
  std::string group_;                             // of what was split off: its name
  std::vector<int> numbers_;                      // of what was split off: its ranks in what all others were split from
  std::unique_ptr<device::Stream> alone_stream_;  // of world size 1

  std::atomic<bool> failed_{false};
  mutable std::mutex error_mutex_;
  absl::Status first_error_;
  std::shared_ptr<Family> family_;  // under error_mutex_

  device::BriefLock issue_lock_;
  uint64_t sequence_ = 0;
  uint64_t last_taken_ = 0;  // the ticket of the last operation that was not refused
  uint64_t splits_ = 0;
  bool finalized_ = false;
};

}  // namespace zeroshard::comm
