// The double of NCCL: the calls that we make. See nccl_control.h.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/backends/nccl/doubles/nccl_control.h"
#include "zeroshard/backends/nccl/doubles/queued_group.h"
#include "zeroshard/backends/nccl/doubles/shared_group.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends::doubles {
namespace {

using device::EndTest;

int VersionFromEnvironment() {
  const char* set = std::getenv("ZEROSHARD_DOUBLE_NCCL");
  return set == nullptr ? NCCL_VERSION_CODE : std::atoi(set);
}

std::atomic<int> version{VersionFromEnvironment()};
std::atomic<bool> windows{true}, register_fails{false}, abort_hangs{false};
std::atomic<int64_t> pieces{0};

// What operations in flight share with the communicator, which may be gone before them.
struct CommState {
  std::shared_ptr<SharedGroup> shared;
  int rank = 0;
  std::atomic<bool> aborted{false};
  std::atomic<int> in_flight{0};
};

struct Registered {
  size_t bytes = 0;
  bool window = false;
  int number = 0;  // of windows, the same on all ranks
};

}  // namespace
}  // namespace zeroshard::backends::doubles

using namespace zeroshard::backends::doubles;  // NOLINT(google-build-using-namespace): the functions are C's

struct ncclComm {
  std::shared_ptr<CommState> state;
  // Changed by the thread that calls NCCL, under Live()'s mutex: ncclMemFree looks at all communicators'.
  std::map<const void*, Registered> registered;
  int windows = 0;  // so far
};

namespace {

struct LiveComms {
  std::mutex mutex;
  std::map<ncclComm*, std::unique_ptr<ncclComm>> comms;
};
LiveComms& Live() {
  static LiveComms* const live = new LiveComms;  // Never destroyed: threads may outlive main.
  return *live;
}

ncclResult_t Add(const SharedPlace& place, int rank, int world_size, ncclComm_t* added) {
  auto comm = std::make_unique<ncclComm>();
  comm->state = std::make_shared<CommState>();
  comm->state->rank = rank;
  comm->state->shared = SharedGroup::Open(place, rank, world_size);
  if (comm->state->shared == nullptr) return ncclRemoteError;
  std::lock_guard<std::mutex> lock(Live().mutex);
  *added = comm.get();
  Live().comms[*added] = std::move(comm);
  return ncclSuccess;
}

ncclComm& Checked(ncclComm_t comm, const char* call) {
  std::lock_guard<std::mutex> lock(Live().mutex);
  const auto found = Live().comms.find(comm);
  if (found == Live().comms.end()) EndTest(absl::StrCat(call, " of a communicator that is gone"));
  return *found->second;
}

std::unique_ptr<ncclComm> Remove(ncclComm_t comm, const char* call) {
  std::lock_guard<std::mutex> lock(Live().mutex);
  const auto found = Live().comms.find(comm);
  if (found == Live().comms.end()) EndTest(absl::StrCat(call, " of a communicator that is gone"));
  std::unique_ptr<ncclComm> removed = std::move(found->second);
  Live().comms.erase(found);
  return removed;
}

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

void Register(ncclComm& comm, const void* address, Registered memory) {
  std::lock_guard<std::mutex> lock(Live().mutex);
  comm.registered[address] = memory;
}

void Deregister(ncclComm& comm, const void* address, const char* call) {
  std::lock_guard<std::mutex> lock(Live().mutex);
  if (comm.registered.erase(address) == 0) EndTest(absl::StrCat(call, " of what is not registered"));
}

int RegisteredAs(const ncclComm& comm, const void* address, size_t bytes) {
  auto next = comm.registered.upper_bound(address);
  if (next == comm.registered.begin()) return 0;
  const auto& [begin, memory] = *std::prev(next);
  const size_t at = static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(begin));
  return memory.window && at + bytes <= memory.bytes ? 1 : 0;
}

// In which window, and where in it, as one number; 0: in none.
int PlaceOf(const ncclComm& comm, const void* address) {
  auto next = comm.registered.upper_bound(address);
  if (address == nullptr || next == comm.registered.begin()) return 0;
  const auto& [begin, memory] = *std::prev(next);
  const size_t at = static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(begin));
  constexpr size_t kWindows = 64;
  return memory.window && at < memory.bytes ? static_cast<int>(at * kWindows + static_cast<size_t>(memory.number) + 1) : 0;
}

ncclResult_t Queue(ncclComm_t comm, cudaStream_t stream, CallArguments call, const char* name) {
  ncclComm& on = Checked(comm, name);
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

namespace zeroshard::backends::doubles {
void SetNcclVersion(int v) { version = v; }
void SetNcclWindows(bool supported) { windows = supported; }
void SetNcclRegisterFails(bool fails) { register_fails = fails; }
void SetNcclAbortHangs(bool hangs) { abort_hangs = hangs; }

int64_t NcclPieces() { return pieces; }
int64_t NcclRegistrations() {
  std::lock_guard<std::mutex> lock(Live().mutex);
  size_t registrations = 0;
  for (const auto& [key, comm] : Live().comms) registrations += comm->registered.size();
  return static_cast<int64_t>(registrations);
}
}  // namespace zeroshard::backends::doubles

extern "C" {

ncclResult_t ncclGetVersion(int* v) {
  *v = version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "an error of the double";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "the double says no more"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  const SharedPlace place = SharedGroup::Make();
  std::memcpy(id->internal, &place, sizeof place);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int world_size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 1) EndTest("a communicator that does not block, which ours never is");
  SharedPlace place;
  std::memcpy(&place, id.internal, sizeof place);
  return Add(place, rank, world_size, comm);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  ncclComm& whole = Checked(comm, "ncclCommSplit");
  if (config == nullptr || config->blocking != 1) EndTest("a communicator that does not block, which ours never is");
  CommState& state = *whole.state;
  const int64_t choice = (static_cast<int64_t>(color) << 32) + key;
  const std::vector<int64_t> choices = state.shared->Exchange(state.rank, choice, state.aborted);
  if (choices.empty()) return ncclRemoteError;
  int rank = 0, world_size = 0;
  size_t first = 0;  // of the part
  for (size_t r = 0; r < choices.size(); ++r) {
    if (choices[r] >> 32 != color) continue;
    if (world_size++ == 0 || choices[r] < choices[first]) first = r;
    if (choices[r] < choice) ++rank;
  }
  SharedPlace place;
  if (color != NCCL_SPLIT_NOCOLOR && rank == 0) place = SharedGroup::Make();
  const std::vector<int64_t> places = state.shared->Exchange(state.rank, std::bit_cast<int64_t>(place), state.aborted);
  if (places.empty()) return ncclRemoteError;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  return Add(std::bit_cast<SharedPlace>(places[first]), rank, world_size, part);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Checked(comm, "ncclCommGetAsyncError");
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  while (abort_hangs) usleep(1000);
  Remove(comm, "ncclCommAbort")->state->aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::unique_ptr<ncclComm> removed = Remove(comm, "ncclCommDestroy");
  if (removed->state->in_flight > 0) EndTest("ncclCommDestroy while operations are in flight");
  if (!removed->registered.empty()) EndTest("ncclCommDestroy before its memory was deregistered");
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  if (cudaMalloc(address, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  ++pieces;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* address) {
  {
    std::lock_guard<std::mutex> lock(Live().mutex);
    for (const auto& [key, comm] : Live().comms) {
      if (comm->registered.count(address) != 0) EndTest("ncclMemFree of memory that is registered");
    }
  }
  --pieces;
  return cudaFree(address) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* address, size_t bytes, void** handle) {
  if (register_fails) return ncclInvalidUsage;
  Register(Checked(comm, "ncclCommRegister"), address, {bytes, false});
  *handle = address;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  Deregister(Checked(comm, "ncclCommDeregister"), handle, "ncclCommDeregister");
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* address, size_t bytes, ncclWindow_t* window, int flags) {
  ncclComm& on = Checked(comm, "ncclCommWindowRegister");
  if (flags != NCCL_WIN_COLL_SYMMETRIC) EndTest("a window that is not symmetric, which ours always is");
  if (bytes % NCCL_WIN_REQUIRED_ALIGNMENT != 0) EndTest("a window of no whole pages");
  const std::vector<int64_t> sizes =
      on.state->shared->Exchange(on.state->rank, static_cast<int64_t>(bytes), on.state->aborted);
  if (sizes.empty()) return ncclRemoteError;
  for (size_t r = 0; r < sizes.size(); ++r) {
    if (sizes[r] != static_cast<int64_t>(bytes)) {
      EndTest(absl::StrCat("a symmetric window of ", bytes, " bytes on rank ", on.state->rank, " and of ", sizes[r],
                           " on rank ", r));
    }
  }
  *window = nullptr;
  if (!windows) return ncclSuccess;
  Register(on, address, {bytes, true, ++on.windows});
  *window = static_cast<ncclWindow_t>(address);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  Deregister(Checked(comm, "ncclCommWindowDeregister"), window, "ncclCommWindowDeregister");
  return ncclSuccess;
}

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
  const std::shared_ptr<CommState> state = Checked(comm, "ncclGroupEnd").state;
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
