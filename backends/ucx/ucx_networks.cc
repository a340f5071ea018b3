#include "zeroshard/backends/ucx/ucx_networks.h"

#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "zeroshard/backends/ucx/await_value.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using Addresses = std::vector<comm::NetworkAddress>;

// "mlx5_0:1": UCX's name of each port.
std::vector<std::string> RdmaPorts() {
  std::vector<std::string> ports;
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", none)) {
      ports.push_back(absl::StrCat(device.path().filename().string(), ":", port.path().filename().string()));
    }
  }
  return ports;
}

// "eth0: 4 6": the families that each of the interfaces has.
std::string FamiliesOf(const std::set<std::string>& interfaces, const Addresses& here) {
  bool v4 = !interfaces.empty(), v6 = v4;
  for (const std::string& interface : interfaces) {
    const auto has = [&](int family) {
      return std::any_of(here.begin(), here.end(), [&](const comm::NetworkAddress& address) {
        return address.interface == interface && address.family == family;
      });
    };
    v4 = v4 && has(AF_INET);
    v6 = v6 && has(AF_INET6);
  }
  return absl::StrCat(absl::StrJoin(interfaces, "+"), ":", v4 ? " IPv4" : "", v6 ? " IPv6" : "");
}

// What a rank tells the others.
struct Said {
  std::string families;
  std::vector<std::string> addresses;  // of its host
};

absl::StatusOr<std::vector<Said>> Exchange(const Said& mine, const NetworkMeeting& meeting) {
  ZS_RETURN_IF_ERROR(meeting.store->Set(absl::StrCat("networks/", meeting.rank),
                                        absl::StrCat(mine.families, "\n", absl::StrJoin(mine.addresses, " "))));
  std::vector<Said> all;
  for (int rank = 0; rank < meeting.world_size; ++rank) {
    const absl::StatusOr<std::string> theirs =
        AwaitValue(*meeting.store, absl::StrCat("networks/", rank), meeting.deadline, meeting.given_up);
    if (absl::IsDeadlineExceeded(theirs.status())) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", rank, " did not say in time which networks it has"));
    }
    ZS_RETURN_IF_ERROR(theirs.status());
    const std::pair<std::string, std::string> lines = absl::StrSplit(*theirs, absl::MaxSplits('\n', 1));
    all.push_back({.families = lines.first, .addresses = absl::StrSplit(lines.second, ' ', absl::SkipEmpty())});
  }
  return all;
}

absl::StatusOr<std::string> CommonFamilies(const std::vector<Said>& all) {
  const auto have = [&](absl::string_view family) {
    return std::all_of(all.begin(), all.end(), [&](const Said& said) { return absl::StrContains(said.families, family); });
  };
  if (have(" IPv4")) return "inet,inet6";
  if (have(" IPv6")) return "inet6,inet";
  std::string list;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    absl::StrAppend(&list, rank == 0 ? "" : ", ", "rank ", rank, " ", all[rank].families);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("UCX: the ranks' interfaces have no family of addresses in common (", list,
                   "); give every host an address of the same family, or name other interfaces (--bind)"));
}

std::vector<std::string> SourcesOf(const std::vector<Said>& all, const std::vector<std::string>& peers) {
  std::set<std::string> sources;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::set<std::string> addresses(all[rank].addresses.begin(), all[rank].addresses.end());
    if (rank < peers.size() && !peers[rank].empty() && addresses.count(peers[rank]) == 0) {
      LOG(WARNING) << "UCX: rank " << rank << " is seen here at " << peers[rank]
                   << ", which is none of its host's addresses (" << absl::StrJoin(addresses, ", ")
                   << "); so anybody may connect to UCX's TCP until all ranks are connected";
      return {};
    }
    sources.insert(addresses.begin(), addresses.end());
  }
  return {sources.begin(), sources.end()};
}

}  // namespace

LineEnds EndsOf(std::span<const comm::Socket> lines) {
  const Addresses here = comm::ListAddresses().value_or(Addresses());
  LineEnds ends;
  for (const comm::Socket& line : lines) {
    sockaddr_storage own = {}, peer = {};
    socklen_t own_length = sizeof(own), peer_length = sizeof(peer);
    std::string& seen = ends.peers.emplace_back();
    if (!line || getsockname(line.get(), reinterpret_cast<sockaddr*>(&own), &own_length) != 0) continue;
    if (getpeername(line.get(), reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0) {
      seen = comm::TextOf(reinterpret_cast<sockaddr&>(peer));
    }
    const std::string text = comm::TextOf(reinterpret_cast<sockaddr&>(own));
    for (const comm::NetworkAddress& address : here) {
      if (address.text == text) ends.interfaces.insert(address.interface);
    }
  }
  return ends;
}

absl::StatusOr<UcxNetworks> ChooseNetworks(const LineEnds& ends, const NetworkMeeting& meeting) {
  ZS_ASSIGN_OR_RETURN(const Addresses here, comm::ListAddresses());
  Said mine = {.families = FamiliesOf(ends.interfaces, here), .addresses = {}};
  for (const comm::NetworkAddress& address : here) mine.addresses.push_back(address.text);
  ZS_ASSIGN_OR_RETURN(const std::vector<Said> all, Exchange(mine, meeting));
  UcxNetworks networks;
  ZS_ASSIGN_OR_RETURN(networks.families, CommonFamilies(all));
  networks.sources = SourcesOf(all, ends.peers);
  std::vector<std::string> devices = RdmaPorts();
  devices.insert(devices.begin(), ends.interfaces.begin(), ends.interfaces.end());
  networks.devices = absl::StrJoin(devices, ",");
  return networks;
}

}  // namespace zeroshard::backends
