#include "zeroshard/backends/nccl/join.h"

#include <nccl.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "zeroshard/backends/nccl/nccl_environment.h"
#include "zeroshard/backends/nccl/nccl_errors.h"
#include "zeroshard/backends/nccl/rank_words.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/device/cuda/cuda_libraries.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/library_versions.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

constexpr char kUniqueId[] = "unique_id";

std::string RankKey(int rank) { return absl::StrCat("rank/", rank); }

absl::Status CheckDevice(device::Device& device) {
  if (device.name() == "cuda") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--backend=nccl moves memory of GPUs, and this rank's device is '",
                                                 std::string(device.name()), "': take --device=cuda, or --backend=gloo"));
}

// What NCCL will read, settled and shown; the version that is loaded.
absl::StatusOr<int> SettleSurroundings(const NcclOptions& options) {
  ZS_ASSIGN_OR_RETURN(const Surroundings found, LookAround(options.interface));
  const std::vector<std::string> by_the_user =
      PrepareEnvironment({.rank = options.rank, .interface = found.interface, .share_gpu = options.share_gpu});
  if (options.rank == 0 && !by_the_user.empty()) {
    LOG(INFO) << "nccl: the environment sets " << absl::StrJoin(by_the_user, " ");
  }
  return found.version;
}

// This host, apart from every other.
std::string ThisHost(const NcclOptions& options) {
  if (!options.host.empty()) return options.host;
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return absl::StrCat(name, "/", boot);
}

absl::Status NotHere(comm::Store& store, const NcclOptions& options, const absl::Status& why) {
  std::vector<std::string> missing;
  for (int r = 0; r < options.world_size; ++r) {
    const auto found = store.TryGet(RankKey(r));
    if (found.ok() && !found->has_value()) missing.push_back(absl::StrCat("rank ", r));
  }
  if (missing.empty()) return why;
  return absl::Status(why.code(), absl::StrCat("nccl: not here within ", absl::FormatDuration(options.timeout), ": ",
                                               absl::StrJoin(missing, ", ")));
}

// All ranks are here, with the same libraries. Gives each rank's host.
absl::StatusOr<std::vector<std::string>> MeetRanks(comm::Store& store, const NcclOptions& options, int version) {
  const std::string mine = absl::StrCat(device::LibraryText("NCCL", version), ", ", device::cuda::LoadedLibraries());
  ZS_RETURN_IF_ERROR(store.Set(RankKey(options.rank), FormatRank({.libraries = mine, .host = ThisHost(options)})));
  std::vector<std::string> keys;
  for (int r = 0; r < options.world_size; ++r) keys.push_back(RankKey(r));
  if (const absl::Status here = store.Wait(keys, options.timeout); !here.ok()) return NotHere(store, options, here);
  std::vector<std::string> hosts;
  std::string rank_zeros;
  for (int r = 0; r < options.world_size; ++r) {
    ZS_ASSIGN_OR_RETURN(const std::string told, store.Get(RankKey(r), options.timeout));
    ZS_ASSIGN_OR_RETURN(RankWords theirs, ParseRank(r, told));
    if (r == 0) rank_zeros = theirs.libraries;
    ZS_RETURN_IF_ERROR(device::CheckSameLibraries(/*rank=*/0, rank_zeros, r, theirs.libraries));
    hosts.push_back(std::move(theirs.host));
  }
  return hosts;
}

absl::StatusOr<ncclUniqueId> ShareUniqueId(comm::Store& store, const NcclOptions& options) {
  ncclUniqueId id;
  if (options.rank == 0) {
    ZS_RETURN_IF_ERROR(NcclStatus(ncclGetUniqueId(&id), "ncclGetUniqueId"));
    ZS_RETURN_IF_ERROR(store.Set(kUniqueId, {id.internal, sizeof id.internal}));
    return id;
  }
  ZS_ASSIGN_OR_RETURN(const std::string value, store.Get(kUniqueId, options.timeout));
  ZS_RETURN_IF_ERROR(CheckUniqueId(value, sizeof id.internal));
  std::memcpy(id.internal, value.data(), sizeof id.internal);
  return id;
}

ncclConfig_t BlockingConfig() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  return config;
}

}  // namespace

int NodeSize(std::span<const std::string> hosts) {
  size_t size = 1;
  while (size < hosts.size() && hosts[size] == hosts[0]) ++size;
  if (size == hosts.size() || !std::has_single_bit(size) || hosts.size() % size != 0) return 1;
  std::set<std::string> seen;
  for (size_t first = 0; first < hosts.size(); first += size) {
    if (!seen.insert(hosts[first]).second) return 1;
    for (size_t r = first; r < first + size; ++r) {
      if (hosts[r] != hosts[first]) return 1;
    }
  }
  return static_cast<int>(size);
}

absl::Status CheckNcclVersion(int loaded, int built) {
  if (loaded >= built) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("NCCL ", VersionText(loaded),
                                                 " is loaded, and this program was built against ", VersionText(built),
                                                 ": put NCCL ", VersionText(built), " or later first in LD_LIBRARY_PATH"));
}

absl::StatusOr<Surroundings> LookAround(std::string_view interface) {
  Surroundings found;
  ZS_ASSIGN_OR_RETURN(const std::vector<comm::NetworkAddress> here, comm::ListAddresses());
  if (!interface.empty()) {
    ZS_ASSIGN_OR_RETURN(const comm::NetworkAddress address, comm::ChooseAddress(here, interface, {}));
    found.interface = absl::StrCat("=", address.interface);
  }
  ZS_RETURN_IF_ERROR(CheckVariables());
  ZS_RETURN_IF_ERROR(CheckInterface(NcclVariable("NCCL_SOCKET_IFNAME").value_or(found.interface), here));
  ZS_RETURN_IF_ERROR(NcclStatus(ncclGetVersion(&found.version), "ncclGetVersion"));
  ZS_RETURN_IF_ERROR(CheckNcclVersion(found.version, NCCL_VERSION_CODE));
  return found;
}

absl::StatusOr<Joined> Join(const NcclOptions& options) {
  ZS_RETURN_IF_ERROR(CheckDevice(*options.device));
  ZS_ASSIGN_OR_RETURN(const int version, SettleSurroundings(options));
  ZS_ASSIGN_OR_RETURN(const int64_t nth, options.store->Add(absl::StrCat("nccl/joined/", options.rank), 1));
  Joined joined;
  joined.stream = options.device->MakeStream(device::StreamKind::kCommunication);
  joined.store = options.store;
  joined.prefix = absl::StrCat("nccl/", nth, "/");
  joined.notes = std::make_unique<GroupNotes>(*options.store, joined.prefix, options.rank, options.world_size);
  if (options.world_size == 1) return joined;
  ZS_ASSIGN_OR_RETURN(joined.hosts, MeetRanks(joined.notes->store(), options, version));
  ZS_ASSIGN_OR_RETURN(const ncclUniqueId id, ShareUniqueId(joined.notes->store(), options));
  // A stream's native() makes its device this thread's current one.
  joined.thread = std::make_shared<NcclThread>(
      *options.device, [&stream = *joined.stream] { device::cuda::CudaStream::Of(stream).native(); });
  const auto made = std::make_shared<ncclComm_t>();
  ZS_RETURN_IF_ERROR(joined.thread->Call(
      "ncclCommInitRank",
      [made, id, rank = options.rank, world_size = options.world_size] {
        ncclConfig_t config = BlockingConfig();
        return NcclStatus(ncclCommInitRankConfig(made.get(), world_size, id, rank, &config), "ncclCommInitRankConfig");
      },
      options.timeout));
  joined.handle = std::make_shared<CommHandle>(*made);
  return joined;
}

absl::StatusOr<Joined> JoinPart(const Joined& whole, const PartOptions& options) {
  const auto made = std::make_shared<ncclComm_t>();
  ZS_RETURN_IF_ERROR(whole.thread->Call(
      "ncclCommSplit",
      [made, handle = whole.handle, color = options.color, key = options.rank] {
        if (!handle->Enter()) return absl::FailedPreconditionError("the communicator was aborted");
        ncclConfig_t config = BlockingConfig();
        const absl::Status split = NcclStatus(
            ncclCommSplit(handle->get(), color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, made.get(), &config), "ncclCommSplit");
        handle->Leave();
        return split;
      },
      options.timeout));
  Joined part;
  if (options.color < 0) return part;
  part.stream = whole.stream->device().MakeStream(device::StreamKind::kCommunication);
  part.thread = whole.thread;
  part.handle = std::make_shared<CommHandle>(*made);
  std::vector<int> numbers;
  for (const int member : options.members) {
    part.hosts.push_back(whole.hosts[static_cast<size_t>(member)]);
    numbers.push_back(whole.notes->Number(member));
  }
  part.store = whole.store;
  part.prefix = absl::StrCat(whole.prefix, options.id, ".", options.color, "/");
  part.notes = std::make_unique<GroupNotes>(*part.store, part.prefix, options.rank, options.world_size, std::move(numbers));
  return part;
}

}  // namespace zeroshard::backends
