// Which of this host's addresses a rank listens on.
//
// The user may say: an address (10.0.0.3, fd00::3), an interface's name (eth0), the beginning of one (eth), or which not to use
// (^docker,veth: beginnings). Where nobody says: loopback while all ranks are on this host; else the address from which this
// host reaches MASTER_ADDR, or, where that is a loopback address (a host's own name often resolves to 127.0.1.1) or not set, the
// address of the default route, or else one of no container's network (docker0, veth...). Link-local IPv6 addresses mean nothing
// on another host, and are left out.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::vector<NetworkAddress> here, ListAddresses());
//   ZS_ASSIGN_OR_RETURN(NetworkAddress address, ChooseAddress(here, "^docker", {.single_host = false}));
#pragma once

#include <sys/socket.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zeroshard::comm {

struct NetworkAddress {
  std::string interface = {};  // "eth0"
  std::string text = {};       // "10.0.0.3", "fd00::3"
  int family = AF_INET;        // or AF_INET6
  bool loopback = false;
};

struct AddressNeed {
  bool single_host = false;         // all ranks are here
  std::string master_address = {};  // MASTER_ADDR, may be empty
};

// The addresses of the interfaces that are up, in the system's order.
absl::StatusOr<std::vector<NetworkAddress>> ListAddresses();

// See above. `here` is ListAddresses(). Where several fit, IPv4 goes first.
// Errors: kInvalidArgument nothing fits; the message lists what there is.
absl::StatusOr<NetworkAddress> ChooseAddress(std::span<const NetworkAddress> here, std::string_view wanted,
                                             const AddressNeed& need);

// The address that this host's packets to `host` (a name or an address) come from; empty where there is no way there. Sends nothing.
std::string AddressTowards(const std::string& host);

// The socket address of `text`, port `port`; its length, or 0 where `text` is no numeric address.
socklen_t MakeSocketAddress(const std::string& text, int port, sockaddr_storage& address);

// The address alone, as text: "10.0.0.3", "fd00::3"; of an IPv4 or IPv6 one.
std::string TextOf(const sockaddr& address);

// The port of a socket address; 0 where it has none.
int PortOf(const sockaddr_storage& address);
// That a socket is bound to; 0 where it is to none.
int BoundPort(int socket);

}  // namespace zeroshard::comm
