// The double of NCCL: groups of calls, which are queued on a stream where they end. See nccl_control.h.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/backends/nccl/doubles/live_comms.h"
#include "zeroshard/backends/nccl/doubles/queued_group.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/late/end_test.h"

using namespace zeroshard::backends::doubles;  // NOLINT(google-build-using-namespace): the functions are C's
using zeroshard::device::EndTest;

namespace {

// The calls of this thread since ncclGroupStart.
struct OpenGroup {
  bool open = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<CallArguments> calls;
  ~OpenGroup() {
    if (open) EndTest("a group was left open: nothing in it ever starts");
  }
};
thread_local OpenGroup group;

// The window that begins last of those that do not begin behind `address`, and how far behind its beginning that is.
struct InWindow {
  const Registered* window = nullptr;  // null: there is none
  size_t at = 0;
};
InWindow Find(const ncclComm& comm, const void* address) {
  const auto next = comm.registered.upper_bound(address);
  if (next == comm.registered.begin()) return {};
  const auto& [begin, memory] = *std::prev(next);
  if (!memory.window) return {};
  return {.window = &memory, .at = static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(begin))};
}

int RegisteredAs(const ncclComm& comm, const void* address, size_t bytes) {
  const auto [window, at] = Find(comm, address);
  return window != nullptr && at + bytes <= window->bytes ? 1 : 0;
}

// In which window, and where in it, as one number; 0: in none.
int PlaceOf(const ncclComm& comm, const void* address) {
  const auto [window, at] = Find(comm, address);
  constexpr size_t kWindows = 64;
  if (window == nullptr || at >= window->bytes) return 0;
  return static_cast<int>(at * kWindows + static_cast<size_t>(window->number) + 1);
}

ncclResult_t Queue(ncclComm_t comm, cudaStream_t stream, CallArguments call, const char* name) {
  ncclComm& on = LiveCommHere(comm, name);
  if (!group.open) EndTest(absl::StrCat(name, " outside a group, where ours never is"));
  if (group.comm != nullptr && (group.comm != comm || group.stream != stream)) {
    EndTest("a group of two communicators or streams, which ours never is");
  }
  if (call.call != Call::kPeerToPeer && (call.root < 0 || call.root >= on.state->shared->world_size()))
    return ncclInvalidArgument;
  const size_t bytes = call.count * SizeOf(call.dtype);
  const bool root = on.state->rank == call.root;
  int registered = 0;
  if (call.call != Call::kBroadcast || root) registered |= RegisteredAs(on, call.in, bytes);
  if (call.call == Call::kBroadcast) registered = RegisteredAs(on, call.out, bytes);
  call.registered = registered;
  // What is in place of the part of a rank lies elsewhere on each, on purpose; the whole does not.
  call.place = PlaceOf(on, call.call == Call::kReduceScatter || call.call == Call::kReduce ? call.in : call.out);
  group.comm = comm;
  group.stream = stream;
  group.calls.push_back(call);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  if (group.open) EndTest("a group within a group, which ours never is");
  group.open = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (!group.open) EndTest("ncclGroupEnd without ncclGroupStart");
  group.open = false;
  const ncclComm_t comm = std::exchange(group.comm, nullptr);
  const std::vector<CallArguments> calls = std::exchange(group.calls, {});
  if (calls.empty()) return ncclSuccess;
  const std::shared_ptr<CommState> state = LiveCommHere(comm, "ncclGroupEnd").state;
  constexpr size_t kQueue = 1000;
  if (const size_t queued = group.stream->engine->Queued(group.stream->id); queued > kQueue) {
    EndTest(absl::StrCat("ncclGroupEnd behind ", queued,
                         " entries of a stream's queue: it waits for the device there, and no abort is heard"));
  }
  const auto queued = std::make_shared<QueuedGroup>(state->shared, state->rank);
  for (const CallArguments& call : calls) queued->Add(call);
  ++state->in_flight;
  zeroshard::device::cuda::doubles::EnqueuePolled(group.stream, "nccl", queued->accesses(),
                                                  [state, queued](const zeroshard::device::AddressMap& map) {
                                                    const bool done = state->aborted || queued->Poll(map);
                                                    if (done) --state->in_flight;
                                                    return done;
                                                  });
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm, cudaStream_t stream) {
  return Queue(comm, stream, {.call = Call::kPeerToPeer, .in = from, .count = count, .dtype = dtype, .root = peer},
               "ncclSend");
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm, cudaStream_t stream) {
  return Queue(comm, stream, {.call = Call::kPeerToPeer, .out = to, .count = count, .dtype = dtype, .root = peer},
               "ncclRecv");
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t dtype, ncclComm_t comm,
                           cudaStream_t stream) {
  return Queue(comm, stream, {.call = Call::kAllGather, .in = in, .out = out, .count = count, .dtype = dtype},
               "ncclAllGather");
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return Queue(comm, stream, {.call = Call::kBroadcast, .in = in, .out = out, .count = count, .dtype = dtype, .root = root},
               "ncclBroadcast");
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return Queue(comm, stream, {.call = Call::kAllReduce, .in = in, .out = out, .count = count, .dtype = dtype, .op = op},
               "ncclAllReduce");
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return Queue(comm, stream, {.call = Call::kReduceScatter, .in = in, .out = out, .count = count, .dtype = dtype, .op = op},
               "ncclReduceScatter");
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t dtype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return Queue(comm, stream,
               {.call = Call::kReduce, .in = in, .out = out, .count = count, .dtype = dtype, .op = op, .root = root},
               "ncclReduce");
}

}  // extern "C"
