#include "zeroshard/comm/rendezvous/service_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

bool IsLoopback(const std::string& text) { return text.starts_with("127.") || text == "::1"; }

// Whether this host has the address; all of 127/8 are its own.
bool IsHere(const std::vector<NetworkAddress>& here, const std::string& text) {
  if (text.starts_with("127.")) return true;
  return std::any_of(here.begin(), here.end(), [&](const NetworkAddress& a) { return a.text == text; });
}

absl::StatusOr<Socket> Listen(const std::string& address, int port) {
  sockaddr_storage bound;
  const socklen_t length = MakeSocketAddress(address, port, bound);
  Socket listener(socket(bound.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (listener && bound.ss_family == AF_INET6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  // A port of an earlier run that lingers is free; one that is listened on is not.
  if (listener) setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (listener && bind(listener.get(), reinterpret_cast<sockaddr*>(&bound), length) == 0 &&
      listen(listener.get(), SOMAXCONN) == 0) {
    return listener;
  }
  const int error = errno;
  const std::string where =
      absl::StrCat("rendezvous: rank 0 cannot listen on ", address, " port ", port, ": ", strerror(error));
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        absl::StrCat(where, "; another run has the port, perhaps: give --store=tcp:HOST:PORT another"));
  }
  return absl::UnavailableError(where);
}

}  // namespace

absl::StatusOr<ServiceAddress> ParseServiceAddress(std::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "tcp:", std::string(text), ": no HOST:PORT; write tcp:node1:29500, tcp:10.0.0.3:29500 or tcp:[fd00::3]:29500"));
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.find('\0') != std::string_view::npos) return wrong;
  ServiceAddress address;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  address.host = std::string(host);
  const std::string port(text.substr(colon + 1));
  const bool digits = std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (host.empty() || host.size() > 253 || !digits || !absl::SimpleAtoi(port, &address.port)) return wrong;
  // Of an address of IPv6 without brackets nobody knows where it ends.
  if (!bracketed && host.find(':') != std::string_view::npos) return wrong;
  if (address.port < 1 || address.port > 65535) return wrong;
  return address;
}

std::string Format(const ServiceAddress& address) {
  if (address.host.find(':') == std::string::npos) return absl::StrCat(address.host, ":", address.port);
  return absl::StrCat("[", address.host, "]:", address.port);
}

absl::StatusOr<std::vector<std::string>> Resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) return absl::UnavailableError(absl::StrCat("cannot resolve '", host, "': ", gai_strerror(error)));
  std::vector<std::string> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    std::string text = TextOf(*a->ai_addr);
    if (std::find(addresses.begin(), addresses.end(), text) == addresses.end()) addresses.push_back(std::move(text));
  }
  freeaddrinfo(found);
  return addresses;
}

absl::StatusOr<std::vector<std::string>> ChooseListeningAddresses(const std::vector<NetworkAddress>& here,
                                                                  const std::vector<std::string>& resolved,
                                                                  const ServiceAddress& address, const ListenNeed& need) {
  if (!need.bind.empty()) {
    ZS_ASSIGN_OR_RETURN(const NetworkAddress chosen, ChooseAddress(here, need.bind, {.single_host = need.single_host}));
    return std::vector<std::string>{chosen.text};
  }
  std::vector<std::string> chosen;
  bool reachable = need.single_host;
  for (const std::string& text : resolved) {
    if (!IsHere(here, text)) continue;
    chosen.push_back(text);
    reachable = reachable || !IsLoopback(text);
  }
  if (chosen.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rendezvous: rank 0 is not on ", address.host, ": it resolves to ", absl::StrJoin(resolved, ", "),
        ", and this host has ",
        absl::StrJoin(here, ", ",
                      [](std::string* out, const NetworkAddress& a) { absl::StrAppend(out, a.interface, " ", a.text); }),
        "; give --store=tcp:HOST:PORT of rank 0's host, or say by --bind where it listens"));
  }
  if (reachable) return chosen;
  const auto outside = ChooseAddress(here, "", {.single_host = false, .master_address = address.host});
  if (outside.ok()) chosen.push_back(outside->text);
  return chosen;
}

absl::StatusOr<std::vector<Socket>> ListenAt(const ServiceAddress& address, const ListenNeed& need) {
  ZS_ASSIGN_OR_RETURN(const std::vector<NetworkAddress> here, ListAddresses());
  std::vector<std::string> resolved;
  if (need.bind.empty()) {
    ZS_ASSIGN_OR_RETURN(resolved, Resolve(address.host));
  }
  ZS_ASSIGN_OR_RETURN(const std::vector<std::string> chosen, ChooseListeningAddresses(here, resolved, address, need));
  std::vector<Socket> listeners;
  for (const std::string& text : chosen) {
    absl::StatusOr<Socket> listener = Listen(text, address.port);
    // "localhost" may resolve to ::1 where there is no IPv6.
    if (!listener.ok() && (absl::IsAlreadyExists(listener.status()) || chosen.size() == 1)) return listener.status();
    if (listener.ok()) listeners.push_back(*std::move(listener));
  }
  if (!listeners.empty()) return listeners;
  return absl::UnavailableError(
      absl::StrCat("rendezvous: rank 0 cannot listen on any of ", absl::StrJoin(chosen, ", "), " port ", address.port));
}

}  // namespace zeroshard::comm
