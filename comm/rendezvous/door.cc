#include "zeroshard/comm/rendezvous/door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/time/clock.h"
#include "glog/logging.h"

namespace zeroshard::comm {
namespace {

constexpr absl::Duration kVisitTime = absl::Seconds(5);
constexpr size_t kMostVisitors = 256;

}  // namespace

Door::Door(std::vector<Socket> listeners, std::string token, int most_admitted, Admit admit)
    : listeners_(std::move(listeners)),
      token_(std::move(token)),
      most_admitted_(most_admitted),
      admit_(std::move(admit)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Listen(); }) {}

Door::~Door() {
  const uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void Door::Listen() {
  std::vector<pollfd> entries;
  for (;;) {
    entries.assign({{.fd = stop_.get(), .events = POLLIN, .revents = 0}});
    for (const Socket& listener : listeners_) entries.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
    for (const Visitor& visitor : visitors_) entries.push_back({.fd = visitor.socket.get(), .events = POLLIN, .revents = 0});
    poll(entries.data(), entries.size(), visitors_.empty() ? -1 : 200);
    if (entries[0].revents != 0) return;
    size_t entry = 1 + listeners_.size();
    for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
      const bool stays = entries[entry++].revents == 0 || Hear(*visitor);
      const bool late = stays && absl::Now() - visitor->since > kVisitTime;
      if (late) TurnAway(*visitor, "it did not greet");
      visitor = stays && !late ? std::next(visitor) : visitors_.erase(visitor);
    }
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (entries[1 + i].revents != 0) Accept(listeners_[i]);
    }
  }
}

void Door::Accept(const Socket& listener) {
  Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    // Out of descriptors, perhaps not for long: the oldest visitor's helps.
    if (errno == EMFILE || errno == ENFILE) {
      if (!visitors_.empty()) visitors_.pop_front();
      absl::SleepFor(absl::Milliseconds(10));
    }
    return;
  }
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  if (visitors_.size() == kMostVisitors) {
    TurnAway(visitors_.front(), "others came");
    visitors_.pop_front();
  }
  visitors_.push_back({.socket = std::move(socket), .since = absl::Now()});
}

bool Door::Hear(Visitor& visitor) {
  const ssize_t got = recv(visitor.socket.get(), reinterpret_cast<char*>(&visitor.greeting) + visitor.have,
                           sizeof(RendezvousGreeting) - visitor.have, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {
    TurnAway(visitor, "it left without greeting");
    return false;
  }
  visitor.have += static_cast<size_t>(got);
  const bool whole = visitor.have == sizeof(RendezvousGreeting);
  const bool garbage =
      std::memcmp(visitor.greeting.magic, kRendezvousMagic, std::min(visitor.have, sizeof(kRendezvousMagic))) != 0;
  if (!whole && !garbage) return true;
  const bool welcome = whole && ShowsToken(visitor.greeting, token_) && admitted_ < most_admitted_;
  const char answer = welcome ? kRendezvousWelcome : kRendezvousRefusal;
  if (send(visitor.socket.get(), &answer, 1, MSG_NOSIGNAL) != 1 || !welcome) {
    TurnAway(visitor, garbage                      ? "it is no rank's"
                      : admitted_ < most_admitted_ ? "it does not know the token"
                                                   : "too many came");
    return false;
  }
  ++admitted_;
  admit_(std::move(visitor.socket));
  return false;
}

void Door::TurnAway(const Visitor& /*visitor*/, const char* why) {
  ++turned_away_;
  if (absl::Now() - last_said_ < absl::Seconds(1)) return;
  LOG(WARNING) << "rendezvous: turned a connection away: " << why
               << (turned_away_ > 1 ? " (and others since this was last said)" : "");
  last_said_ = absl::Now();
  turned_away_ = 0;
}

}  // namespace zeroshard::comm
