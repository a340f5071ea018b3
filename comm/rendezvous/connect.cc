#include "zeroshard/comm/rendezvous/connect.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "zeroshard/comm/rendezvous/greeting.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// One address that swallows packets must not use up the time of the others.
constexpr absl::Duration kMostPerAddress = absl::Seconds(3);

// Waits for `events`; false where they do not come by `deadline`.
bool Await(int socket, short events, absl::Time deadline) {
  for (;;) {
    pollfd entry = {.fd = socket, .events = events, .revents = 0};
    const auto left = static_cast<int>(absl::ToInt64Milliseconds(deadline - absl::Now()));
    const int ready = poll(&entry, 1, std::max(left, 0));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

absl::StatusOr<Socket> ConnectTo(const std::string& address, int port, absl::Time deadline) {
  sockaddr_storage there;
  const socklen_t length = MakeSocketAddress(address, port, there);
  Socket socket(::socket(there.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return absl::UnavailableError(strerror(errno));
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&there), length) != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError(strerror(errno));
  }
  if (!Await(socket.get(), POLLOUT, deadline)) return absl::UnavailableError("no answer");
  int error = 0;
  socklen_t error_length = sizeof(error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &error_length);
  if (error != 0) return absl::UnavailableError(strerror(error));
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  return socket;
}

absl::Status Greet(int socket, std::string_view token, absl::Time deadline) {
  const RendezvousGreeting greeting = MakeRendezvousGreeting(token);
  if (send(socket, &greeting, sizeof(greeting), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(greeting))) {
    return absl::UnavailableError(strerror(errno));
  }
  char answer = 0;
  if (!Await(socket, POLLIN, deadline)) return absl::UnavailableError("somebody listens there who does not answer");
  const ssize_t got = recv(socket, &answer, 1, 0);
  if (got == 1 && answer == kRendezvousWelcome) return absl::OkStatus();
  if (got == 1 && answer == kRendezvousRefusal) {
    return absl::UnauthenticatedError("the rendezvous there does not take this rank's token: it is another job's");
  }
  return absl::UnavailableError("somebody listens there that is no rendezvous of this version");
}

}  // namespace

absl::StatusOr<Socket> ConnectToRendezvous(const ServiceAddress& address, std::string_view token, absl::Time deadline) {
  ZS_ASSIGN_OR_RETURN(const std::vector<std::string> numeric, Resolve(address.host));
  absl::Status failed = absl::UnavailableError(absl::StrCat("'", address.host, "' has no address"));
  for (const std::string& text : numeric) {
    const absl::Time until = std::min(deadline, absl::Now() + kMostPerAddress);
    absl::StatusOr<Socket> socket = ConnectTo(text, address.port, until);
    absl::Status status = socket.status();
    if (status.ok()) status = Greet(socket->get(), token, until);
    if (status.ok()) return socket;
    // What a refusal says is worth more than what comes after it.
    if (absl::IsUnauthenticated(failed)) continue;
    failed = absl::Status(status.code(), absl::StrCat(text, " port ", address.port, ": ", std::string(status.message())));
  }
  return failed;
}

}  // namespace zeroshard::comm
