#include "zeroshard/backends/nccl/doubles/live_comms.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends::doubles {
namespace {

using device::EndTest;

struct LiveComms {
  std::mutex mutex;
  std::map<ncclComm*, std::unique_ptr<ncclComm>> comms;
};
LiveComms& Live() {
  static LiveComms* const live = new LiveComms;  // Never destroyed: threads may outlive main.
  return *live;
}

// Under the mutex.
auto Find(ncclComm_t comm, const char* call) {
  const auto found = Live().comms.find(comm);
  if (found == Live().comms.end()) EndTest(absl::StrCat(call, " of a communicator that is gone"));
  return found;
}

}  // namespace

ncclResult_t MakeComm(const SharedPlace& place, int rank, int world_size, ncclComm_t* made) {
  auto comm = std::make_unique<ncclComm>();
  comm->state = std::make_shared<CommState>();
  comm->state->rank = rank;
  comm->device = device::cuda::doubles::CurrentDevice();
  comm->state->shared = SharedGroup::Open(place, rank, world_size);
  if (comm->state->shared == nullptr) return ncclRemoteError;
  std::lock_guard<std::mutex> lock(Live().mutex);
  *made = comm.get();
  Live().comms[*made] = std::move(comm);
  return ncclSuccess;
}

ncclComm& LiveComm(ncclComm_t comm, const char* call) {
  std::lock_guard<std::mutex> lock(Live().mutex);
  return *Find(comm, call)->second;
}

ncclComm& LiveCommHere(ncclComm_t comm, const char* call) {
  ncclComm& live = LiveComm(comm, call);
  device::cuda::doubles::CheckCurrent(live.device, call);
  return live;
}

std::unique_ptr<ncclComm> TakeComm(ncclComm_t comm, const char* call) {
  LiveCommHere(comm, call);
  std::lock_guard<std::mutex> lock(Live().mutex);
  const auto found = Find(comm, call);
  std::unique_ptr<ncclComm> taken = std::move(found->second);
  Live().comms.erase(found);
  return taken;
}

void Register(ncclComm& comm, const void* address, Registered memory) {
  std::lock_guard<std::mutex> lock(Live().mutex);
  comm.registered[address] = memory;
}

void Deregister(ncclComm& comm, const void* address, const char* call) {
  std::lock_guard<std::mutex> lock(Live().mutex);
  if (comm.registered.erase(address) == 0) EndTest(absl::StrCat(call, " of what is not registered"));
}

bool IsRegistered(const void* address) {
  std::lock_guard<std::mutex> lock(Live().mutex);
  for (const auto& [key, comm] : Live().comms) {
    if (comm->registered.count(address) != 0) return true;
  }
  return false;
}

int64_t CountRegistrations() {
  std::lock_guard<std::mutex> lock(Live().mutex);
  size_t registrations = 0;
  for (const auto& [key, comm] : Live().comms) registrations += comm->registered.size();
  return static_cast<int64_t>(registrations);
}

}  // namespace zeroshard::backends::doubles
