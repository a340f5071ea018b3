#include "zeroshard/comm/network_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

using Addresses = std::span<const NetworkAddress>;

// Any address outside this network, of the range that documentation keeps for itself: asks for the default route.
constexpr const char* kFarAway[] = {"192.0.2.1", "2001:db8::1"};

std::string Candidates(Addresses here) {
  if (here.empty()) return "this host has no address on any interface that is up";
  return absl::StrCat("there are ", absl::StrJoin(here, ", ", [](std::string* out, const NetworkAddress& a) {
                        absl::StrAppend(out, a.interface, " ", a.text);
                      }));
}

// The first that `fits`, IPv4 before IPv6; null where none does.
const NetworkAddress* First(Addresses here, const std::function<bool(const NetworkAddress&)>& fits) {
  for (const int family : {AF_INET, AF_INET6}) {
    for (const NetworkAddress& a : here) {
      if (a.family == family && fits(a)) return &a;
    }
  }
  return nullptr;
}

// The same address however it is written ("::1", "0:0::1").
bool SameAddress(const std::string& a, const std::string& b) {
  sockaddr_storage one, other;
  return MakeSocketAddress(a, 0, one) != 0 && MakeSocketAddress(b, 0, other) != 0 && one.ss_family == other.ss_family &&
         TextOf(reinterpret_cast<sockaddr&>(one)) == TextOf(reinterpret_cast<sockaddr&>(other));
}

const NetworkAddress* ByText(Addresses here, const std::string& text) {
  return First(here, [&](const NetworkAddress& a) { return SameAddress(a.text, text); });
}

absl::StatusOr<NetworkAddress> Wanted(Addresses here, const std::string& wanted) {
  sockaddr_storage unused;
  if (MakeSocketAddress(wanted, 0, unused) != 0) {
    if (const NetworkAddress* found = ByText(here, wanted)) return *found;
    return absl::InvalidArgumentError(
        absl::StrCat("interface ", wanted, ": this host does not have that address; ", Candidates(here)));
  }
  if (const NetworkAddress* found = First(here, [&](const NetworkAddress& a) { return a.interface == wanted; }))
    return *found;
  if (const NetworkAddress* found = First(here, [&](const NetworkAddress& a) { return a.interface.starts_with(wanted); })) {
    return *found;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "interface ", wanted, ": no interface that is up has that name, or a name that begins so; ", Candidates(here)));
}

// The addresses that "^docker,veth" leaves, loopback last.
absl::StatusOr<std::vector<NetworkAddress>> Without(Addresses here, const std::string& wanted) {
  const std::vector<std::string> excluded = absl::StrSplit(wanted.substr(1), ',', absl::SkipEmpty());
  std::vector<NetworkAddress> left;
  for (const NetworkAddress& a : here) {
    const bool out = std::any_of(excluded.begin(), excluded.end(), [&](const std::string& prefix) {
      return a.interface.starts_with(prefix) || a.text == prefix;
    });
    if (!out) left.push_back(a);
  }
  if (!left.empty()) return left;
  return absl::InvalidArgumentError(absl::StrCat("interface ", wanted, ": leaves no interface; ", Candidates(here)));
}

// Networks of containers and virtual machines of this host lead to no other; their bridges often come first.
bool LeadsInward(const NetworkAddress& a) {
  constexpr std::string_view kInward[] = {"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "lxc", "podman"};
  return std::any_of(std::begin(kInward), std::end(kInward),
                     [&](std::string_view name) { return a.interface.starts_with(name); });
}

absl::StatusOr<NetworkAddress> Unsaid(Addresses here, const AddressNeed& need) {
  const auto loopback = [](const NetworkAddress& a) { return a.loopback; };
  const auto outside = [](const NetworkAddress& a) { return !a.loopback; };
  if (need.single_host) {
    if (const NetworkAddress* found = First(here, loopback)) return *found;
  }
  std::vector<std::string> targets;
  if (!need.master_address.empty()) targets.push_back(need.master_address);
  targets.insert(targets.end(), std::begin(kFarAway), std::end(kFarAway));
  for (const std::string& target : targets) {
    const NetworkAddress* found = ByText(here, AddressTowards(target));
    if (found != nullptr && !found->loopback) return *found;
  }
  const auto likely = [](const NetworkAddress& a) { return !a.loopback && !LeadsInward(a); };
  if (const NetworkAddress* found = First(here, likely)) return *found;
  if (const NetworkAddress* found = First(here, outside)) return *found;
  if (need.single_host && !here.empty()) return here.front();
  return absl::InvalidArgumentError(absl::StrCat(
      "the ranks are on several hosts, and this one has no address that the others could reach; ", Candidates(here)));
}

}  // namespace

socklen_t MakeSocketAddress(const std::string& text, int port, sockaddr_storage& address) {
  std::memset(&address, 0, sizeof(address));
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(port));
    return sizeof(v4);
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<uint16_t>(port));
    return sizeof(v6);
  }
  return 0;
}

int PortOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

int BoundPort(int socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? PortOf(address) : 0;
}

std::string AddressTowards(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  std::string text;
  for (const addrinfo* a = found; a != nullptr && text.empty(); a = a->ai_next) {
    const int probe = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) continue;
    sockaddr_storage own = {};
    socklen_t length = sizeof(own);
    // Connecting a datagram socket only looks the route up.
    if (connect(probe, a->ai_addr, a->ai_addrlen) == 0 &&
        getsockname(probe, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
      text = TextOf(reinterpret_cast<sockaddr&>(own));
    }
    close(probe);
  }
  freeaddrinfo(found);
  return text;
}

std::string TextOf(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes = address.sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                          : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return inet_ntop(address.sa_family, bytes, text, sizeof(text)) == nullptr ? "" : text;
}

absl::StatusOr<std::vector<NetworkAddress>> ListAddresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    return absl::InternalError(absl::StrCat("cannot list the network interfaces: ", strerror(errno)));
  }
  std::vector<NetworkAddress> here;
  for (const ifaddrs* a = all; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || (a->ifa_flags & IFF_UP) == 0) continue;
    const int family = a->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(a->ifa_addr)->sin6_addr)) continue;
    here.push_back({.interface = a->ifa_name,
                    .text = TextOf(*a->ifa_addr),
                    .family = family,
                    .loopback = (a->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(all);
  return here;
}

absl::StatusOr<NetworkAddress> ChooseAddress(Addresses here, std::string_view wanted, const AddressNeed& need) {
  const std::string said(wanted);
  if (said.empty()) return Unsaid(here, need);
  if (said[0] != '^') return Wanted(here, said);
  ZS_ASSIGN_OR_RETURN(const std::vector<NetworkAddress> left, Without(here, said));
  return Unsaid(left, need);
}

}  // namespace zeroshard::comm
