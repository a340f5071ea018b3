// How ranks come together: by which ways, over which lines.
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "zeroshard/backends/ucx/await_value.h"
#include "zeroshard/backends/ucx/sealed_value.h"
#include "zeroshard/backends/ucx/ucx_networks.h"
#include "zeroshard/backends/ucx/ucx_transport.h"
#include "zeroshard/comm/port_range.h"
#include "zeroshard/comm/store_prefix.h"
#include "zeroshard/comm/usable_cores.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using comm::Channel;
using comm::Deadline;
using comm::Transfer;
using Clock = std::chrono::steady_clock;

// Where things lie in each rank's part of the pages.
struct Places {
  int64_t mail;  // after the guard
  int64_t lines;
  int64_t cores;
  int64_t bytes;
};
Places PlacesOf(int world_size) {
  const int64_t mail = AccessGuard::PageBytes(world_size);
  const int64_t lines = mail + Mailboxes::Bytes(world_size);
  const int64_t cores = lines + MappedLines::Bytes();
  return {.mail = mail, .lines = lines, .cores = cores, .bytes = cores + static_cast<int64_t>(sizeof(comm::CoreSet))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::Connect(const ConnectOptions& options) {
  ConnectOptions connect = options;
  ZS_ASSIGN_OR_RETURN(std::string store_prefix, StorePrefixOfNext("ucx", connect));
  return ConnectUnder(connect, std::move(store_prefix));
}

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::ConnectUnder(const ConnectOptions& options,
                                                                         std::string store_prefix) {
  std::unique_ptr<UcxTransport> transport(new UcxTransport(options, std::move(store_prefix)));
  if (options.world_size > 1) ZS_RETURN_IF_ERROR(transport->Open());
  return transport;
}

absl::Status UcxTransport::Open() {
  const Deadline deadline = Clock::now() + absl::ToChronoNanoseconds(options_.timeout);
  if (!wake_) return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", strerror(errno)));
  comm::PrefixStore store(store_prefix_, *options_.store);
  ConnectOptions connect = options_;
  connect.store = &store;
  ZS_ASSIGN_OR_RETURN(std::vector<PeerSockets> peers, ConnectPeers(connect));
  std::vector<Socket> lines(peers.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    lines[i] = std::move(peers[i].line);
    hosts_[i] = peers[i].host;
  }
  ends_ = EndsOf(lines);
  lines_ = std::make_unique<PeerLines>(options_, std::move(lines),
                                       [this](int peer, const absl::Status& why) { Heard(peer, why); });
  const absl::Status opened = [&] {
    // Where the user names the ways, they are all that there are.
    if (std::getenv("UCX_TLS") == nullptr) {
      ZS_RETURN_IF_ERROR(OpenWays(store, UcxWays::kSharedMemory, deadline));
      if (guard_ != nullptr) return absl::OkStatus();
      pages_.reset();
      worker_.reset();
    }
    return OpenWays(store, UcxWays::kAll, deadline);
  }();
  if (!opened.ok()) Cancel(opened);
  return opened;
}

absl::Status UcxTransport::OpenWays(comm::Store& store, UcxWays ways, Deadline deadline) {
  UcxNetworks networks;
  if (ways == UcxWays::kAll) {
    ZS_ASSIGN_OR_RETURN(networks, ChooseNetworks(ends_, {.store = &store,
                                                         .rank = options_.rank,
                                                         .world_size = options_.world_size,
                                                         .deadline = deadline,
                                                         .given_up = [this] { return GivenUp(); }}));
  }
  ZS_RETURN_IF_ERROR(MakeWorker(ways, std::move(networks)));
  ZS_RETURN_IF_ERROR(ConnectWorkers(store, ways, deadline));
  ZS_RETURN_IF_ERROR(ShareGuard(ways, deadline));
  if (guard_ == nullptr && ways == UcxWays::kSharedMemory) return absl::OkStatus();  // Some rank is elsewhere.
  constexpr int64_t kLong = Mailboxes::kMostBytes + 1;
  ZS_RETURN_IF_ERROR(Greet(kLong, deadline));  // UCX's ways are open from now on.
  if (guard_ != nullptr) spins_ = HasCoreForEachRank();
  if (ways == UcxWays::kAll) {
    ZS_RETURN_IF_ERROR(worker_->Flush(deadline));
    ZS_RETURN_IF_ERROR(Greet(kLong, deadline));
    worker_->StopListening();
  }
  return guard_ == nullptr ? absl::OkStatus() : MoveLines(deadline);
}

// One port of the range after the other, until UCX finds one free.
absl::Status UcxTransport::MakeWorker(UcxWays ways, UcxNetworks networks) {
  const comm::PortRange& ports = options_.ports;
  const bool chooses = ways == UcxWays::kAll && !ports.any() && std::getenv("UCX_TCP_PORT_RANGE") == nullptr;
  for (int tried = 0; !chooses || tried < ports.size(); ++tried) {
    if (chooses) networks.port = ports.Nth(static_cast<uint64_t>(getpid()) + static_cast<uint64_t>(tried));
    absl::StatusOr<std::shared_ptr<UcxWorker>> worker = UcxWorker::Create(options_.world_size, ways, networks);
    if (worker.ok()) {
      worker_ = *std::move(worker);
      return absl::OkStatus();
    }
    if (!chooses || !absl::IsAlreadyExists(worker.status())) return worker.status();
  }
  return comm::NoFreePort(absl::StrCat(networks.devices, " for UCX on rank ", number(rank())), ports);
}

// Once all have greeted. Ranks may be bound to cores, each to its own, or all to the same few.
bool UcxTransport::HasCoreForEachRank() const {
  comm::CoreSet all = {};
  for (int rank = 0; rank < options_.world_size; ++rank) {
    const void* const page = rank == options_.rank ? pages_->data() : pages_->address(rank);
    comm::CoreSet cores;
    std::memcpy(&cores, static_cast<const std::byte*>(page) + PlacesOf(options_.world_size).cores, sizeof(cores));
    for (size_t word = 0; word < all.size(); ++word) all[word] |= cores[word];
  }
  return comm::Count(all) >= options_.world_size;
}

// From TCP to shared memory. Nobody closes a line to which somebody listens.
absl::Status UcxTransport::MoveLines(Deadline deadline) {
  auto mapped = std::make_unique<MappedLines>(*pages_, PlacesOf(options_.world_size).lines, options_,
                                              [this](int peer, const absl::Status& why) { Heard(peer, why); });
  ZS_RETURN_IF_ERROR(Greet(1, deadline));  // All listen there.
  static_cast<PeerLines&>(*lines_).StopListening();
  const std::unique_ptr<Lines> bound = std::exchange(lines_, std::move(mapped));
  return Greet(1, deadline);  // None listens here.
}

absl::Status UcxTransport::ConnectWorkers(comm::Store& store, UcxWays ways, Deadline deadline) {
  const std::string key = ways == UcxWays::kSharedMemory ? "worker/shared memory/" : "worker/";
  ZS_ASSIGN_OR_RETURN(const std::string address, worker_->Address());
  numbers_.resize(static_cast<size_t>(options_.world_size));
  uint64_t& mine = numbers_[static_cast<size_t>(options_.rank)];
  if (getrandom(&mine, sizeof(mine), 0) != static_cast<ssize_t>(sizeof(mine))) {
    return absl::InternalError("getrandom gave too few bytes");
  }
  const std::string number(reinterpret_cast<const char*>(&mine), sizeof(mine));
  ZS_RETURN_IF_ERROR(store.Set(absl::StrCat(key, options_.rank), SealValue("address", number + address)));
  for (int peer = 0; peer < options_.world_size; ++peer) {
    if (peer == options_.rank) continue;
    absl::StatusOr<std::string> theirs = AwaitValue(store, absl::StrCat(key, peer), deadline, [this] { return GivenUp(); });
    if (absl::IsDeadlineExceeded(theirs.status())) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", this->number(peer), " did not give its UCX address within ",
                                                      absl::FormatDuration(options_.timeout)));
    }
    ZS_RETURN_IF_ERROR(theirs.status());
    ZS_ASSIGN_OR_RETURN(const std::string opened, OpenValue("address", peer, *theirs));
    if (opened.size() < sizeof(mine)) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", this->number(peer), " gave a UCX address of ", opened.size(), " bytes"));
    }
    std::memcpy(&numbers_[static_cast<size_t>(peer)], opened.data(), sizeof(mine));
    const absl::Status connected = worker_->Connect(peer, opened.substr(sizeof(mine)));
    // A peer that shares no memory will not be seen.
    if (ways == UcxWays::kAll || !absl::IsUnavailable(connected)) ZS_RETURN_IF_ERROR(connected);
  }
  return absl::OkStatus();
}

// A message of so many bytes from every peer.
absl::Status UcxTransport::Greet(int64_t each, Deadline deadline) {
  std::vector<char> bytes(static_cast<size_t>((options_.world_size + 1) * each));
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    if (peer != options_.rank) transfers.push_back(Receive(peer, Channel::kData, bytes.data() + peer * each, each));
  }
  for (int peer = 0; peer < options_.world_size; ++peer) {
    if (peer == options_.rank) continue;
    transfers.push_back(Send(peer, Channel::kData, bytes.data() + options_.world_size * each, each));
  }
  absl::Status first;
  for (const Transfer transfer : transfers) first.Update(Wait(transfer, deadline));
  if (!first.ok()) Quiesce();  // `bytes` ends here.
  return first;
}

absl::Status UcxTransport::ShareGuard(UcxWays ways, Deadline deadline) {
  const Places places = PlacesOf(options_.world_size);
  ZS_ASSIGN_OR_RETURN(pages_, MakeRegion(ways == UcxWays::kAll ? "map/guard" : "map/shared memory", places.bytes, deadline));
  if (!pages_->mapped()) return absl::OkStatus();
  asked_.resize(static_cast<size_t>(options_.world_size) * comm::kChannels);
  waiting_.reserve(asked_.size() * comm::kMaxInFlight);
  const std::lock_guard<std::mutex> lock(mutex_);  // Cancel and the lines' thread look at both.
  guard_ = std::make_unique<AccessGuard>(*pages_, options_.rank);
  mail_ = std::make_unique<Mailboxes>(*pages_, places.mail, options_.rank, options_.world_size);
  const comm::CoreSet own = comm::OwnCores();
  std::memcpy(static_cast<std::byte*>(pages_->data()) + places.cores, &own, sizeof(own));
  return absl::OkStatus();
}

}  // namespace zeroshard::backends
