// Lane: what an operation is carried out on: a NCCL communicator, a stream and its pace, and scratch memory, of one rank.
//
// Example:
//   CallGroup group(lane);
//   group.Send(part, peer);
//   group.Receive(room, peer);
//   ZS_RETURN_IF_ERROR(group.End());
#pragma once

#include <nccl.h>

#include "absl/status/status.h"
#include "zeroshard/backends/nccl/pace.h"
#include "zeroshard/comm/reduce_op.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/dtype.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::backends {

struct Lane {
  ncclComm_t comm = nullptr;
  device::Stream* stream = nullptr;
  cudaStream_t native = nullptr;  // the same stream
  Pace* pace = nullptr;           // of that stream
  int rank = 0;
  int world_size = 1;
  int node_size = 1;      // consecutive ranks of each node, where reductions go by two levels; 1: one level
  device::Array scratch;  // uint8; its content is any operation's
};

ncclDataType_t NcclType(device::DType dtype);
ncclRedOp_t NcclOp(comm::ReduceOp op);

// Calls of NCCL that start together: ncclGroupStart to ncclGroupEnd. Empty arrays are left out. The first error stays, and End gives it.
class CallGroup {
 public:
  // As many calls as one group is to have, about: NCCL makes a launch of some of them, and these are in the stream's queue together.
  static constexpr int kCalls = 1024;

  explicit CallGroup(const Lane& lane);
  ~CallGroup();
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  void Send(const device::Array& from, int peer);
  void Receive(const device::Array& to, int peer);
  // in [count] of every rank -> out [world_size * count].
  void AllGather(const device::Array& in, const device::Array& out);
  // `in` is read on the root alone.
  void Broadcast(const device::Array& in, const device::Array& out, int root);
  // NCCL's own reductions: in any order, rounded at every hop.
  void AllReduce(const device::Array& in, const device::Array& out, ncclRedOp_t op);
  void ReduceScatter(const device::Array& in, const device::Array& out, ncclRedOp_t op);
  void Reduce(const device::Array& in, const device::Array& out, ncclRedOp_t op, int root);

  absl::Status End();

  // Whether so many calls are in it; a new group goes on. The same on all ranks where their calls are.
  bool full() const { return calls_ >= kCalls; }

 private:
  // Whether the next call is to be made; its array is `array`.
  bool Takes(const device::Array& array);
  void Keep(ncclResult_t result, const char* call);

  const Lane& lane_;
  absl::Status first_;
  bool open_ = false;
  int calls_ = 0;
};

}  // namespace zeroshard::backends
