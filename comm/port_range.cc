#include "zeroshard/comm/port_range.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/network_address.h"

namespace zeroshard::comm {
namespace {

constexpr int kMostPort = 65535;

bool ParsePort(std::string_view text, int& port) {
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &port) && port >= 1 && port <= kMostPort;
}

}  // namespace

std::string PortRange::Describe() const { return first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last); }

absl::StatusOr<PortRange> ParsePortRange(std::string_view text) {
  PortRange range;
  if (text.empty()) return range;
  const size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  if (ParsePort(first, range.first) && ParsePort(last, range.last) && range.first <= range.last) return range;
  return absl::InvalidArgumentError(
      absl::StrCat("--port_range=", absl::CHexEscape(absl::string_view(text.data(), text.size())),
                   ": no range of ports from 1 to ", kMostPort, "; write --port_range=20000-20099"));
}

int MadeUpPort(const PortRange& range, uint64_t number) {
  constexpr PortRange kPorts = {.first = 12000, .last = 31999};
  return (range.any() ? kPorts : range).Nth(number);
}

absl::Status NoFreePort(std::string_view where, const PortRange& range) {
  return absl::AlreadyExistsError(absl::StrCat("cannot listen on ", absl::string_view(where.data(), where.size()), ": all ",
                                               range.size(), " ports of --port_range=", range.Describe(),
                                               " are taken; give a wider one, or end what listens there (ss -ltnp)"));
}

absl::StatusOr<Socket> ListenWithin(const std::string& address, const PortRange& range) {
  const auto start = static_cast<uint64_t>(getpid());
  for (int tried = 0; tried < std::max(1, range.size()); ++tried) {
    sockaddr_storage there;
    const int port = range.any() ? 0 : range.Nth(start + static_cast<uint64_t>(tried));
    const socklen_t length = MakeSocketAddress(address, port, there);
    Socket listener(socket(there.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    // A port of the range at which an earlier run's connections linger is free.
    if (listener && !range.any()) setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (listener && bind(listener.get(), reinterpret_cast<sockaddr*>(&there), length) == 0 &&
        listen(listener.get(), SOMAXCONN) == 0) {
      return listener;
    }
    if (errno == EADDRINUSE && !range.any()) continue;
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, port == 0 ? "" : absl::StrCat(" port ", port), ": ", strerror(errno)));
  }
  return NoFreePort(address, range);
}

}  // namespace zeroshard::comm
