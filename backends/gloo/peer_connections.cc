#include "zeroshard/backends/gloo/peer_connections.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "zeroshard/backends/gloo/endpoint.h"
#include "zeroshard/backends/gloo/greeting.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/rendezvous/job_token.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

// Strangers have this long to show who they are, and no more of them wait at once.
constexpr absl::Duration kVisitTime = absl::Seconds(5);
constexpr size_t kMostVisitors = 64;

std::string HostKey(int rank) { return absl::StrCat("host/", rank); }
std::string AddressKey(int rank) { return absl::StrCat("address/", rank); }

void TuneSocket(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

// Somebody who has connected and has not yet said all of who it is.
struct Visitor {
  Socket socket;
  absl::Time since;
  Greeting greeting = {};
  size_t have = 0;
};

class Connector {
 public:
  explicit Connector(const ConnectOptions& options)
      : options_(options), end_(absl::Now() + options.timeout), peers_(static_cast<size_t>(options.world_size)) {}

  absl::StatusOr<std::vector<PeerSockets>> Run() {
    ZS_ASSIGN_OR_RETURN(const bool single_host, MeetHosts());
    ZS_RETURN_IF_ERROR(Listen(single_host));
    for (int peer = 0; peer < options_.rank; ++peer) {
      ZS_RETURN_IF_ERROR(ConnectTo(peer, ConnectionKind::kData));
      ZS_RETURN_IF_ERROR(ConnectTo(peer, ConnectionKind::kLine));
    }
    ZS_RETURN_IF_ERROR(AcceptHigherRanks());
    return std::move(peers_);
  }

 private:
  int Me() const { return options_.Number(options_.rank); }
  // "1, 3".
  std::string Numbers(const std::vector<int>& peers) const {
    return absl::StrJoin(peers, ", ", [this](std::string* out, int peer) { absl::StrAppend(out, options_.Number(peer)); });
  }
  absl::Duration Left() const { return std::max(end_ - absl::Now(), absl::ZeroDuration()); }
  int LeftMs(absl::Duration most) const { return static_cast<int>(absl::ToInt64Milliseconds(std::min(Left(), most))) + 1; }

  absl::StatusOr<bool> MeetHosts();
  absl::Status Listen(bool single_host);
  absl::Status ConnectTo(int peer, ConnectionKind kind);
  absl::Status TryConnect(int peer, ConnectionKind kind, const Endpoint& endpoint);
  absl::Status Exchange(int socket, int peer, ConnectionKind kind, const Endpoint& endpoint);
  absl::Status AcceptHigherRanks();
  void AcceptVisitor(std::vector<Visitor>& visitors);
  bool Hear(Visitor& visitor);
  absl::Status Welcome(Visitor& visitor);
  void TurnedAway(const absl::Status& why);
  std::vector<int> Unconnected() const;
  Socket& Slot(int peer, ConnectionKind kind) {
    PeerSockets& sockets = peers_[static_cast<size_t>(peer)];
    return kind == ConnectionKind::kData ? sockets.data : sockets.line;
  }

  const ConnectOptions& options_;
  const absl::Time end_;
  std::vector<PeerSockets> peers_;
  comm::NetworkAddress address_;
  Socket listener_;
  std::string token_;
  absl::Time last_said_ = absl::InfinitePast();
};

// Who is on which host, and whether all ranks are on this one; waits until all have come.
absl::StatusOr<bool> Connector::MeetHosts() {
  const std::string here = HostIdentity();
  ZS_RETURN_IF_ERROR(options_.store->Set(HostKey(options_.rank), here));
  std::map<std::string, int> lowest;  // rank on each host
  std::vector<int> missing;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    absl::StatusOr<std::string> host = options_.store->Get(HostKey(peer), Left());
    if (absl::IsDeadlineExceeded(host.status())) {
      missing.push_back(peer);
    } else if (!host.ok()) {
      return host.status();
    } else {
      peers_[static_cast<size_t>(peer)].host = lowest.try_emplace(*std::move(host), peer).first->second;
    }
  }
  if (missing.empty()) return lowest.size() == 1;
  return absl::DeadlineExceededError(absl::StrCat("connecting: ", missing.size() == 1 ? "rank " : "ranks ", Numbers(missing),
                                                  " of ", options_.world_size, missing.size() == 1 ? " has" : " have",
                                                  " not come to ", options_.store->Describe(), " within ",
                                                  absl::FormatDuration(options_.timeout)));
}

absl::Status Connector::Listen(bool single_host) {
  ZS_ASSIGN_OR_RETURN(token_, comm::MakeJobToken());
  ZS_ASSIGN_OR_RETURN(const std::vector<comm::NetworkAddress> here, comm::ListAddresses());
  ZS_ASSIGN_OR_RETURN(address_,
                      comm::ChooseAddress(here, options_.interface,
                                          {.single_host = single_host, .master_address = options_.master_address}));
  absl::StatusOr<Socket> listener = comm::ListenWithin(address_.text, options_.ports);
  if (!listener.ok()) {
    return absl::Status(listener.status().code(),
                        absl::StrCat("rank ", Me(), " (", address_.interface, "): ", listener.status().message()));
  }
  listener_ = *std::move(listener);
  const int port = comm::BoundPort(listener_.get());
  if (port == 0) return absl::UnavailableError(absl::StrCat("rank ", Me(), ": getsockname: ", strerror(errno)));
  const Endpoint endpoint = {.address = address_.text, .port = port, .token = token_};
  return options_.store->Set(AddressKey(options_.rank), FormatEndpoint(endpoint));
}

absl::Status Connector::ConnectTo(int peer, ConnectionKind kind) {
  absl::StatusOr<std::string> text = options_.store->Get(AddressKey(peer), Left());
  if (absl::IsDeadlineExceeded(text.status())) {
    return absl::DeadlineExceededError(absl::StrCat("connecting: rank ", options_.Number(peer), " came to ",
                                                    options_.store->Describe(), " and has published no address within ",
                                                    absl::FormatDuration(options_.timeout)));
  }
  ZS_RETURN_IF_ERROR(text.status());
  ZS_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(peer, *text));
  for (;;) {
    const absl::Status status = TryConnect(peer, kind, endpoint);
    if (status.ok()) return status;
    if (Left() <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("connecting: rank ", Me(), " (from ", address_.interface, " ", address_.text, ") did not reach rank ",
                       options_.Number(peer), " at ", endpoint.address, " port ", endpoint.port, " within ",
                       absl::FormatDuration(options_.timeout), ": ", std::string(status.message())));
    }
    absl::SleepFor(std::min(Left(), absl::Milliseconds(20)));
  }
}

absl::Status Connector::TryConnect(int peer, ConnectionKind kind, const Endpoint& endpoint) {
  sockaddr_storage address, own;
  const socklen_t length = comm::MakeSocketAddress(endpoint.address, endpoint.port, address);
  const socklen_t own_length = comm::MakeSocketAddress(address_.text, 0, own);
  Socket socket(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return absl::UnavailableError(strerror(errno));
  // So that the packets leave by the chosen interface; where that cannot be, the system's choice is tried.
  if (own.ss_family == address.ss_family) (void)bind(socket.get(), reinterpret_cast<sockaddr*>(&own), own_length);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError(strerror(errno));
  }
  pollfd poll_entry = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
  if (poll(&poll_entry, 1, LeftMs(kVisitTime)) <= 0) return absl::UnavailableError("no answer");
  int error = 0;
  socklen_t error_length = sizeof(error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &error_length);
  if (error != 0) return absl::UnavailableError(strerror(error));
  TuneSocket(socket.get());
  ZS_RETURN_IF_ERROR(Exchange(socket.get(), peer, kind, endpoint));
  Slot(peer, kind) = std::move(socket);
  return absl::OkStatus();
}

// Shows the listener's token, and waits until it has shown ours: for as long as there is time, since a listener first connects to
// the ranks below it.
absl::Status Connector::Exchange(int socket, int peer, ConnectionKind kind, const Endpoint& endpoint) {
  const Greeting ours =
      MakeGreeting({.rank = options_.rank, .world_size = options_.world_size, .kind = kind}, endpoint.token);
  if (send(socket, &ours, sizeof(ours), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(ours))) {
    return absl::UnavailableError(strerror(errno));
  }
  Greeting theirs = {};
  for (size_t have = 0; have < sizeof(theirs);) {
    pollfd poll_entry = {.fd = socket, .events = POLLIN, .revents = 0};
    if (poll(&poll_entry, 1, LeftMs(absl::Hours(1))) == 0) return absl::UnavailableError("connected, but not greeted");
    const ssize_t got = recv(socket, reinterpret_cast<char*>(&theirs) + have, sizeof(theirs) - have, MSG_DONTWAIT);
    if (got > 0) have += static_cast<size_t>(got);
    if (got == 0) return absl::UnavailableError("the connection was closed");
    if (got < 0 && errno != EAGAIN && errno != EINTR) return absl::UnavailableError(strerror(errno));
  }
  const std::optional<Greeter> greeter = CheckGreeting(theirs, options_.world_size, token_);
  if (!greeter.has_value() || greeter->rank != peer || greeter->kind != kind) {
    return absl::UnavailableError("somebody else listens there");
  }
  return absl::OkStatus();
}

std::vector<int> Connector::Unconnected() const {
  std::vector<int> missing;
  for (int peer = options_.rank + 1; peer < options_.world_size; ++peer) {
    const PeerSockets& sockets = peers_[static_cast<size_t>(peer)];
    if (!sockets.data || !sockets.line) missing.push_back(peer);
  }
  return missing;
}

void Connector::AcceptVisitor(std::vector<Visitor>& visitors) {
  Socket socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    // Out of descriptors, perhaps not for long.
    absl::SleepFor(absl::Milliseconds(1));
    return;
  }
  if (visitors.size() == kMostVisitors) visitors.erase(visitors.begin());
  visitors.push_back({.socket = std::move(socket), .since = absl::Now()});
}

// Reads on; false where the visitor is to be turned away.
bool Connector::Hear(Visitor& visitor) {
  const ssize_t got = recv(visitor.socket.get(), reinterpret_cast<char*>(&visitor.greeting) + visitor.have,
                           sizeof(Greeting) - visitor.have, MSG_DONTWAIT);
  if (got > 0) visitor.have += static_cast<size_t>(got);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

// A whole greeting is there: keeps the connection where it is a rank's, and answers.
absl::Status Connector::Welcome(Visitor& visitor) {
  const std::optional<Greeter> greeter = CheckGreeting(visitor.greeting, options_.world_size, token_);
  if (!greeter.has_value() || greeter->rank <= options_.rank) return absl::UnavailableError("no greeting of this group");
  ZS_ASSIGN_OR_RETURN(const std::optional<std::string> text, options_.store->TryGet(AddressKey(greeter->rank)));
  ZS_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(greeter->rank, text.value_or("")));
  const Greeting ours =
      MakeGreeting({.rank = options_.rank, .world_size = options_.world_size, .kind = greeter->kind}, endpoint.token);
  if (send(visitor.socket.get(), &ours, sizeof(ours), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(ours))) {
    return absl::UnavailableError(strerror(errno));
  }
  TuneSocket(visitor.socket.get());
  Slot(greeter->rank, greeter->kind) = std::move(visitor.socket);
  return absl::OkStatus();
}

// Says so once a second at most.
void Connector::TurnedAway(const absl::Status& why) {
  if (absl::Now() - last_said_ < absl::Seconds(1)) return;
  last_said_ = absl::Now();
  LOG(WARNING) << "rank " << Me() << " turned a connection away: " << why.message();
}

absl::Status Connector::AcceptHigherRanks() {
  std::vector<Visitor> visitors;
  for (std::vector<int> missing = Unconnected(); !missing.empty(); missing = Unconnected()) {
    if (Left() <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "connecting: ", missing.size() == 1 ? "rank " : "ranks ", Numbers(missing), " did not connect to rank ", Me(),
          " at ", address_.interface, " ", address_.text, " within ", absl::FormatDuration(options_.timeout)));
    }
    std::vector<pollfd> entries = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Visitor& visitor : visitors) entries.push_back({.fd = visitor.socket.get(), .events = POLLIN, .revents = 0});
    poll(entries.data(), entries.size(), LeftMs(absl::Milliseconds(200)));
    std::vector<Visitor> staying;
    for (size_t i = 0; i < visitors.size(); ++i) {
      Visitor& visitor = visitors[i];
      if (entries[i + 1].revents != 0 && !Hear(visitor)) continue;
      if (visitor.have == sizeof(Greeting)) {
        const absl::Status status = Welcome(visitor);
        if (!status.ok()) TurnedAway(status);
      } else if (absl::Now() - visitor.since < kVisitTime) {
        staying.push_back(std::move(visitor));
      }
    }
    visitors = std::move(staying);
    if (entries[0].revents != 0) AcceptVisitor(visitors);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PeerSockets>> ConnectPeers(const ConnectOptions& options) { return Connector(options).Run(); }

}  // namespace zeroshard::backends
