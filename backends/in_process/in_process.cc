#include "zeroshard/backends/in_process/in_process.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/backends/in_process/in_process_transport.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

// Groups that were announced in a store and that not all ranks have joined yet, by number.
struct Meetings {
  struct Meeting {
    std::shared_ptr<InProcessGroup> group;
    int joined = 0;
  };
  std::mutex mutex;
  std::map<int64_t, Meeting> open;
  int64_t next = 0;
};

Meetings& TheMeetings() {
  static Meetings* const meetings = new Meetings;  // Never destroyed: threads may outlive main.
  return *meetings;
}

int64_t Announce(int world_size) {
  Meetings& meetings = TheMeetings();
  std::lock_guard<std::mutex> lock(meetings.mutex);
  meetings.open[meetings.next].group = std::make_shared<InProcessGroup>(world_size, /*mapped=*/true, Faults());
  return meetings.next++;
}

absl::StatusOr<std::shared_ptr<InProcessGroup>> Join(int64_t number, int world_size) {
  Meetings& meetings = TheMeetings();
  std::lock_guard<std::mutex> lock(meetings.mutex);
  const auto found = meetings.open.find(number);
  if (found == meetings.open.end()) {
    return absl::FailedPreconditionError("in_process: more ranks joined than rank 0's world size");
  }
  std::shared_ptr<InProcessGroup> group = found->second.group;
  if (group->world_size() != world_size) {
    return absl::FailedPreconditionError(
        absl::StrCat("in_process: this rank's world size is ", world_size, ", rank 0's is ", group->world_size()));
  }
  if (++found->second.joined == world_size) meetings.open.erase(found);
  return group;
}

// Rank 0 announces "process group" of the n-th communicator that the store's ranks make; the others read it.
absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeInProcessCommunicator(const comm::BackendOptions& options) {
  comm::Store& store = *options.store;
  ZS_ASSIGN_OR_RETURN(const int64_t nth, store.Add(absl::StrCat("in_process/joined/", options.rank), 1));
  const std::string key = absl::StrCat("in_process/group/", nth);
  if (options.rank == 0) {
    ZS_RETURN_IF_ERROR(store.Set(key, absl::StrCat(getpid(), " ", Announce(options.world_size))));
  }
  ZS_ASSIGN_OR_RETURN(const std::string announced, store.Get(key, options.timeout));
  const size_t space = announced.find(' ');
  int64_t number = 0;
  if (space == std::string::npos || !absl::SimpleAtoi(announced.substr(space + 1), &number)) {
    return absl::FailedPreconditionError(
        absl::StrCat("in_process: ", store.Describe(), " holds '", announced, "' under ", key));
  }
  if (announced.substr(0, space) != std::to_string(getpid())) {
    return absl::FailedPreconditionError(absl::StrCat("in_process: rank 0 is process ", announced.substr(0, space),
                                                      " and this rank is process ", getpid(),
                                                      "; its ranks are threads of one process: use another backend"));
  }
  ZS_ASSIGN_OR_RETURN(std::shared_ptr<InProcessGroup> group, Join(number, options.world_size));
  comm::HostOptions host;
  host.timeout = options.timeout;
  return comm::MakeHostCommunicator(*options.device, MakeInProcessTransport(std::move(group), options.rank), host);
}

comm::BackendMemory Memory(const comm::MemoryRequest& request) { return comm::HostCommunicatorMemory(request); }

// The library is linked whole (alwayslink), so that naming it in deps is enough.
[[maybe_unused]] const bool kRegistered =
    comm::RegisterBackend("in_process", &MakeInProcessCommunicator) && comm::RegisterMemory("in_process", &Memory);

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<comm::Communicator>>> MakeInProcessGroup(std::span<device::Device* const> devices,
                                                                                    const InProcessOptions& options) {
  if (devices.empty()) return absl::InvalidArgumentError("in_process: a group of no devices");
  auto group = std::make_shared<InProcessGroup>(static_cast<int>(devices.size()), options.mapped, options.faults,
                                                options.ranks_per_host);
  if (options.fault_switch != nullptr) options.fault_switch->Hold(group);
  std::vector<std::unique_ptr<comm::Communicator>> ranks;
  for (size_t r = 0; r < devices.size(); ++r) {
    if (devices[r] == nullptr) return absl::InvalidArgumentError(absl::StrCat("in_process: rank ", r, "'s device is null"));
    ZS_ASSIGN_OR_RETURN(
        std::unique_ptr<comm::Communicator> rank,
        comm::MakeHostCommunicator(*devices[r], MakeInProcessTransport(group, static_cast<int>(r)), options.host));
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace zeroshard::backends
