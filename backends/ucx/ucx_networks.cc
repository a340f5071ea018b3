#include "zeroshard/backends/ucx/ucx_networks.h"

#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

absl::StatusOr<std::string> CommonFamilies(const std::string& mine, const NetworkMeeting& meeting) {
  ZS_RETURN_IF_ERROR(meeting.store->Set(absl::StrCat("families/", meeting.rank), mine));
  bool v4 = true, v6 = true;
  std::string all;
  for (int rank = 0; rank < meeting.world_size; ++rank) {
    absl::StatusOr<std::string> theirs =
        AwaitValue(*meeting.store, absl::StrCat("families/", rank), meeting.deadline, meeting.given_up);
    if (absl::IsDeadlineExceeded(theirs.status())) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", rank, " did not say in time which networks it has"));
    }
    ZS_RETURN_IF_ERROR(theirs.status());
    v4 = v4 && absl::StrContains(*theirs, " IPv4");
    v6 = v6 && absl::StrContains(*theirs, " IPv6");
    absl::StrAppend(&all, rank == 0 ? "" : ", ", "rank ", rank, " ", *theirs);
  }
  if (v4) return "inet,inet6";
  if (v6) return "inet6,inet";
  return absl::InvalidArgumentError(
      absl::StrCat("UCX: the ranks' interfaces have no family of addresses in common (", all,
                   "); give every host an address of the same family, or name other interfaces (--bind)"));
}

}  // namespace

std::set<std::string> InterfacesOf(std::span<const comm::Socket> lines) {
  const Addresses here = comm::ListAddresses().value_or(Addresses());
  std::set<std::string> interfaces;
  for (const comm::Socket& line : lines) {
    sockaddr_storage own = {};
    socklen_t length = sizeof(own);
    if (!line || getsockname(line.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) continue;
    const std::string text = comm::TextOf(reinterpret_cast<sockaddr&>(own));
    for (const comm::NetworkAddress& address : here) {
      if (address.text == text) interfaces.insert(address.interface);
    }
  }
  return interfaces;
}

absl::StatusOr<UcxNetworks> ChooseNetworks(const std::set<std::string>& interfaces, const NetworkMeeting& meeting) {
  ZS_ASSIGN_OR_RETURN(const Addresses here, comm::ListAddresses());
  UcxNetworks networks;
  ZS_ASSIGN_OR_RETURN(networks.families, CommonFamilies(FamiliesOf(interfaces, here), meeting));
  std::vector<std::string> devices = RdmaPorts();
  devices.insert(devices.begin(), interfaces.begin(), interfaces.end());
  networks.devices = absl::StrJoin(devices, ",");
  return networks;
}

}  // namespace zeroshard::backends
