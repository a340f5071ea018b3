#include "zeroshard/backends/nccl/lane.h"

#include "zeroshard/backends/nccl/nccl_errors.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::backends {
namespace {

// Of a stream's queue, by NCCL 2.28: a group takes a few events and waits, and its first launch; a launch takes eight pairs of a send and a
// receive at the least, where each has 32 channels.
constexpr int kEntries = 8;
constexpr int kCallsOfALaunch = 16;

void* At(const device::Array& array) { return reinterpret_cast<void*>(array.address()); }
size_t Count(const device::Array& array) { return static_cast<size_t>(array.elements()); }

}  // namespace

ncclDataType_t NcclType(device::DType dtype) {
  switch (dtype) {
    case device::DType::kFloat32:
      return ncclFloat32;
    case device::DType::kFloat64:
      return ncclFloat64;
    case device::DType::kBfloat16:
      return ncclBfloat16;
    case device::DType::kFloat16:
      return ncclFloat16;
    case device::DType::kInt32:
      return ncclInt32;
    case device::DType::kInt64:
      return ncclInt64;
    case device::DType::kUint8:
      break;
  }
  return ncclUint8;
}

ncclRedOp_t NcclOp(comm::ReduceOp op) {
  switch (op) {
    case comm::ReduceOp::kMax:
      return ncclMax;
    case comm::ReduceOp::kMin:
      return ncclMin;
    case comm::ReduceOp::kSum:
    case comm::ReduceOp::kAverage:  // The scale is ours, after the sum: NCCL's would be rounded before it.
      break;
  }
  return ncclSum;
}

CallGroup::CallGroup(const Lane& lane) : lane_(lane), first_(lane.pace->Take(kEntries)) {
  if (!first_.ok()) return;
  Keep(ncclGroupStart(), "ncclGroupStart");
  open_ = first_.ok();
}

CallGroup::~CallGroup() {
  if (open_) End().IgnoreError();
}

void CallGroup::Keep(ncclResult_t result, const char* call) {
  if (result != ncclSuccess && first_.ok()) first_ = NcclStatus(result, call, lane_.comm);
}

bool CallGroup::Takes(const device::Array& array) {
  if (array.empty() || !first_.ok()) return false;
  ++calls_;
  return true;
}

absl::Status CallGroup::End() {
  const device::VendorScope scope;
  if (open_) Keep(ncclGroupEnd(), "ncclGroupEnd");
  open_ = false;
  lane_.pace->Add(calls_ / kCallsOfALaunch);
  return first_;
}

void CallGroup::Send(const device::Array& from, int peer) {
  if (!Takes(from)) return;
  const device::VendorScope scope;
  Keep(ncclSend(At(from), Count(from), NcclType(from.dtype()), peer, lane_.comm, lane_.native), "ncclSend");
}

void CallGroup::Receive(const device::Array& to, int peer) {
  if (!Takes(to)) return;
  const device::VendorScope scope;
  Keep(ncclRecv(At(to), Count(to), NcclType(to.dtype()), peer, lane_.comm, lane_.native), "ncclRecv");
}

void CallGroup::AllGather(const device::Array& in, const device::Array& out) {
  if (!Takes(in)) return;
  const device::VendorScope scope;
  Keep(ncclAllGather(At(in), At(out), Count(in), NcclType(in.dtype()), lane_.comm, lane_.native), "ncclAllGather");
}

void CallGroup::Broadcast(const device::Array& in, const device::Array& out, int root) {
  if (!Takes(out)) return;
  const device::VendorScope scope;
  Keep(ncclBroadcast(At(in), At(out), Count(out), NcclType(out.dtype()), root, lane_.comm, lane_.native), "ncclBroadcast");
}

void CallGroup::AllReduce(const device::Array& in, const device::Array& out, ncclRedOp_t op) {
  if (!Takes(in)) return;
  const device::VendorScope scope;
  Keep(ncclAllReduce(At(in), At(out), Count(in), NcclType(in.dtype()), op, lane_.comm, lane_.native), "ncclAllReduce");
}

void CallGroup::ReduceScatter(const device::Array& in, const device::Array& out, ncclRedOp_t op) {
  if (!Takes(out)) return;
  const device::VendorScope scope;
  Keep(ncclReduceScatter(At(in), At(out), Count(out), NcclType(in.dtype()), op, lane_.comm, lane_.native),
       "ncclReduceScatter");
}

void CallGroup::Reduce(const device::Array& in, const device::Array& out, ncclRedOp_t op, int root) {
  if (!Takes(in)) return;
  const device::VendorScope scope;
  Keep(ncclReduce(At(in), At(out), Count(in), NcclType(in.dtype()), op, root, lane_.comm, lane_.native), "ncclReduce");
}

}  // namespace zeroshard::backends
