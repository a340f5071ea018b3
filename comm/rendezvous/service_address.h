// Where the rendezvous is: "HOST:PORT" as --store=tcp: gives it, and what rank 0 listens on.
//
// Note: what rank 0 listens on. Where nobody says (--bind): the addresses of this host that HOST resolves to here. Where ranks are
// on several hosts and HOST resolves to loopback alone (a host's own name often resolves to 127.0.1.1): the address of the default
// route too. Never all addresses.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(ServiceAddress address, ParseServiceAddress("node1:29500"));
//   ZS_ASSIGN_OR_RETURN(std::vector<Socket> listeners, ListenAt(address, {.single_host = true}));
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::comm {

struct ServiceAddress {
  std::string host;
  int port = 0;
};

// "node1:29500", "10.0.0.3:29500", "[fd00::3]:29500". Errors: kInvalidArgument, with an example.
absl::StatusOr<ServiceAddress> ParseServiceAddress(std::string_view text);

// As ParseServiceAddress reads it.
std::string Format(const ServiceAddress& address);

// The numeric addresses that `host` resolves to here, in the resolver's order. Errors: kUnavailable, with the resolver's words.
absl::StatusOr<std::vector<std::string>> Resolve(const std::string& host);

struct ListenNeed {
  bool single_host = false;
  std::string bind = {};  // an address, an interface, the beginning of one, "^exclude": see network_address.h
};

// The addresses that rank 0 listens on, of those that are `here`; `resolved`: what HOST resolves to. See the Note.
// Errors: kInvalidArgument none fits; the message lists what there is.
absl::StatusOr<std::vector<std::string>> ChooseListeningAddresses(const std::vector<NetworkAddress>& here,
                                                                  const std::vector<std::string>& resolved,
                                                                  const ServiceAddress& address, const ListenNeed& need);

// Listens. Errors: those above; kAlreadyExists the port is taken, with address and port.
absl::StatusOr<std::vector<Socket>> ListenAt(const ServiceAddress& address, const ListenNeed& need);

}  // namespace zeroshard::comm
