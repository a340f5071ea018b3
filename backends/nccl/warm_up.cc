#include "zeroshard/backends/nccl/warm_up.h"

#include <utility>

#include "zeroshard/device/device.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

absl::Status Collectives(const Lane& lane, const device::Array& whole, const device::Array& own) {
  const device::Array first = whole.Slice(0, 1);  // what is whole lies at one place of a window on all ranks
  CallGroup group(lane);
  group.AllGather(own, whole);
  group.Broadcast(first, first, 0);
  group.AllReduce(first, first, ncclSum);
  group.ReduceScatter(whole, own, ncclSum);
  group.Reduce(first, first, ncclSum, 0);
  return group.End();
}

absl::Status Parts(const Lane& lane, const device::Array& whole, const device::Array& own) {
  CallGroup group(lane);
  for (int peer = 0; peer < lane.world_size; ++peer) {
    if (peer == lane.rank) continue;
    group.Send(own, peer);
    group.Receive(whole.Slice(peer, 1), peer);
  }
  return group.End();
}

}  // namespace

absl::Status WarmUp(const Lane& lane, std::shared_ptr<CommHandle> handle, NcclThread& thread, absl::Duration timeout) {
  const auto warm_up = [lane, handle = std::move(handle)] {
    const device::Array whole = lane.scratch.As(device::DType::kFloat32).Slice(0, lane.world_size);
    const device::Array own = whole.Slice(lane.rank, 1);
    if (!handle->Enter()) return absl::CancelledError("the communicator was aborted");
    absl::Status queued = Collectives(lane, whole, own);
    if (queued.ok()) queued = Parts(lane, whole, own);
    handle->Leave();
    ZS_RETURN_IF_ERROR(queued);
    lane.stream->Synchronize();
    return lane.stream->device().status();
  };
  return thread.Call("the first collective", warm_up, timeout);
}

}  // namespace zeroshard::backends
