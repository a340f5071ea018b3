#include "zeroshard/comm/rendezvous/tcp_store.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "zeroshard/comm/rendezvous/client.h"
#include "zeroshard/comm/rendezvous/connect.h"
#include "zeroshard/comm/rendezvous/door.h"
#include "zeroshard/comm/rendezvous/job_token.h"
#include "zeroshard/comm/rendezvous/server.h"
#include "zeroshard/comm/rendezvous/service_address.h"
#include "zeroshard/comm/rendezvous/token_file.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// A rank is silent when four of its beats have not come.
constexpr int kBeatsOfSilence = 4;
absl::Duration BeatOf(absl::Duration timeout) {
  return std::clamp(timeout / (3 * kBeatsOfSilence), absl::Milliseconds(20), absl::Seconds(1));
}

// A rank may come again where its connection broke before gRPC had it.
constexpr int kConnectionsPerRank = 4;
constexpr absl::Duration kMostStay = absl::Seconds(5);
constexpr absl::Duration kToBeTold = absl::Seconds(2);

absl::StatusOr<std::pair<Socket, Socket>> SocketPair() {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::ErrnoToStatus(errno, "rendezvous: make a pair of sockets");
  }
  return std::pair(Socket(ends[0]), Socket(ends[1]));
}

}  // namespace

// What rank 0 has besides.
class TcpStore::Host {
 public:
  explicit Host(absl::Duration timeout) : stay_(std::min(timeout, kMostStay)) {}
  ~Host() {
    if (server_ != nullptr) server_->AwaitDepartures(stay_);
    door_.reset();
  }

  // Gives the token.
  absl::StatusOr<std::string> Start(const ServiceAddress& address, const StoreMember& member);
  // Rank 0's own connection.
  absl::StatusOr<Socket> Connect() {
    ZS_ASSIGN_OR_RETURN(auto ends, SocketPair());
    server_->Adopt(std::move(ends.first));
    return std::move(ends.second);
  }
  void Watch(const RendezvousClient* own) { own_ = own; }
  RendezvousServer& server() { return *server_; }
  // All ranks know it.
  void RemoveTokenFile() { token_file_.Remove(); }

 private:
  const absl::Duration stay_;
  std::atomic<const RendezvousClient*> own_{nullptr};
  TokenFile token_file_;
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<Door> door_;
};

absl::StatusOr<std::string> TcpStore::Host::Start(const ServiceAddress& address, const StoreMember& member) {
  std::vector<Socket> listeners;
  if (member.listener >= 0) {
    listeners.emplace_back(member.listener);
  } else {
    ZS_ASSIGN_OR_RETURN(listeners, ListenAt(address, {.single_host = member.single_host, .bind = member.bind}));
  }
  std::string token = member.token;
  if (token.empty()) {
    ZS_ASSIGN_OR_RETURN(token, MakeJobToken());
    ZS_ASSIGN_OR_RETURN(token_file_, TokenFile::Leave(member.token_path, token));
  }
  const auto own_last = [this] {
    const RendezvousClient* const own = own_.load();
    return own == nullptr ? LastOperation() : own->last();
  };
  ZS_ASSIGN_OR_RETURN(server_, RendezvousServer::Start({.world_size = member.world_size,
                                                        .token = token,
                                                        .terms = member.terms,
                                                        .silence = kBeatsOfSilence * BeatOf(member.timeout),
                                                        .own_last = own_last}));
  door_ = std::make_unique<Door>(std::move(listeners), token, kConnectionsPerRank * member.world_size,
                                 [this](Socket rank) { server_->Adopt(std::move(rank)); });
  return token;
}

namespace {

// One try to find the token, and to be let in with it.
absl::StatusOr<Socket> TryToEnter(const ServiceAddress& address, const StoreMember& member, absl::Time deadline,
                                  std::string& token) {
  token = member.token;
  if (token.empty()) {
    ZS_ASSIGN_OR_RETURN(const std::optional<std::string> read, ReadTokenFile(member.token_path));
    if (!read.has_value()) {
      return absl::UnavailableError(absl::StrCat("rank 0 has left no token in ", member.token_path,
                                                 "; where hosts share no such folder, give --token_file=PATH on each"));
    }
    token = *read;
  }
  return ConnectToRendezvous(address, token, deadline);
}

absl::StatusOr<Socket> Enter(const ServiceAddress& address, const StoreMember& member, absl::Time deadline,
                             std::string& token) {
  for (int round = 0;; ++round) {
    absl::StatusOr<Socket> entered = TryToEnter(address, member, deadline, token);
    if (entered.ok() || absl::IsInvalidArgument(entered.status())) return entered;
    // A stale token file is refused until rank 0 has replaced it; a token that was handed on does not change.
    const bool refused = absl::IsUnauthenticated(entered.status()) && !member.token.empty();
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration() || refused) {
      return absl::Status(refused ? absl::StatusCode::kUnauthenticated : absl::StatusCode::kDeadlineExceeded,
                          absl::StrCat("rank ", member.rank, " did not reach rank 0's rendezvous at ", Format(address),
                                       refused ? "" : absl::StrCat(" within ", absl::FormatDuration(member.timeout)), ": ",
                                       std::string(entered.status().message())));
    }
    absl::SleepFor(std::min(left, absl::Milliseconds(5 << std::min(round, 5))));
  }
}

absl::Status CheckMember(const StoreMember& member) {
  if (member.world_size < 1 || member.rank < 0 || member.rank >= member.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("tcp store: rank ", member.rank, " of ", member.world_size, " ranks: ranks count from 0"));
  }
  if (!member.token.empty()) return CheckJobToken(member.token);
  if (!member.token_path.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("tcp store: without the job's token, and without a place where rank 0 leaves it");
}

}  // namespace

TcpStore::TcpStore() = default;
TcpStore::~TcpStore() {
  if (host_ != nullptr) host_->Watch(nullptr);
}

absl::StatusOr<std::unique_ptr<TcpStore>> TcpStore::Open(std::string_view address, const StoreMember& member) {
  const absl::Time deadline = absl::Now() + member.timeout;
  ZS_RETURN_IF_ERROR(CheckMember(member));
  ZS_ASSIGN_OR_RETURN(const ServiceAddress service, ParseServiceAddress(address));
  std::unique_ptr<TcpStore> store(new TcpStore());
  std::string token;
  Socket connection;
  if (member.rank == 0) {
    store->host_ = std::make_unique<Host>(member.timeout);
    ZS_ASSIGN_OR_RETURN(token, store->host_->Start(service, member));
    ZS_ASSIGN_OR_RETURN(connection, store->host_->Connect());
  } else {
    ZS_ASSIGN_OR_RETURN(connection, Enter(service, member, deadline, token));
  }
  store->client_ = std::make_unique<RendezvousClient>(std::move(connection),
                                                      ClientOptions{.rank = member.rank,
                                                                    .token = token,
                                                                    .where = Format(service),
                                                                    .beat = BeatOf(member.timeout),
                                                                    .patience = std::max(member.timeout, absl::Seconds(1))});
  if (store->host_ != nullptr) store->host_->Watch(store->client_.get());
  const absl::Status joined = store->client_->Join(member, deadline);
  if (!joined.ok()) {
    // Ranks that come late are told why, too.
    if (store->host_ != nullptr && absl::IsFailedPrecondition(joined)) store->host_->server().AwaitArrivals(kToBeTold);
    return joined;
  }
  if (store->host_ != nullptr) store->host_->RemoveTokenFile();
  store->client_->Attend();
  return store;
}

std::string TcpStore::Describe() const { return absl::StrCat("the rendezvous at ", client_->where()); }
RankWatch* TcpStore::watch() { return client_.get(); }

absl::Status TcpStore::DoSet(std::string_view key, std::string_view value) { return client_->Set(key, value); }
absl::StatusOr<std::optional<std::string>> TcpStore::DoTryGet(std::string_view key) { return client_->Get(key); }
absl::StatusOr<int64_t> TcpStore::DoAdd(std::string_view key, int64_t delta) { return client_->Add(key, delta); }

absl::Status TcpStore::DoWait(std::vector<std::string>& keys, absl::Duration timeout) {
  return client_->Wait(keys, timeout);
}
void TcpStore::DoPause(int /*round*/, absl::Duration limit) { absl::SleepFor(std::min(limit, absl::Milliseconds(1))); }

}  // namespace zeroshard::comm
