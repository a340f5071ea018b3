#include "zeroshard/backends/ucx/ucx_transport.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "glog/logging.h"
#include "zeroshard/backends/ucx/await_value.h"
#include "zeroshard/backends/ucx/sealed_value.h"
#include "zeroshard/backends/ucx/ucx_networks.h"
#include "zeroshard/comm/store_prefix.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using comm::Channel;
using comm::Deadline;
using comm::Transfer;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long what was sent may take to be on its way, when this rank ends.
constexpr milliseconds kMostSettling{100};
// How long a rank that gives up waits for peers that read its memory: a piece of a schedule takes far less.
constexpr milliseconds kMostReading{2000};
// Nothing of what was sent waits for the system any more when nothing has moved for so long.
constexpr milliseconds kStill{2};

// Where things lie in each rank's part of the pages.
struct Places {
  int64_t mail;  // after the guard
  int64_t lines;
  int64_t bytes;
};
Places PlacesOf(int world_size) {
  const int64_t mail = ReadGuard::PageBytes(world_size);
  const int64_t lines = mail + Mailboxes::Bytes(world_size);
  return {.mail = mail, .lines = lines, .bytes = lines + MappedLines::Bytes()};
}

// Of a tag: its sender and channel; above them the receiver's number.
constexpr int kSenderBits = 24;

// Memory of Allocate: out of the table before it is given back.
class AllocatedRegion final : public comm::MappedMemory {
 public:
  AllocatedRegion(std::unique_ptr<MappedRegion> region, std::shared_ptr<RegionTable> table, uint64_t number)
      : region_(std::move(region)), table_(std::move(table)), number_(number) {
    if (region_->mapped()) table_->Add(number_, *region_);
  }
  ~AllocatedRegion() override { table_->Remove(number_); }
  void* data() const override { return region_->data(); }

 private:
  const std::unique_ptr<MappedRegion> region_;
  const std::shared_ptr<RegionTable> table_;
  const uint64_t number_;
};

}  // namespace

UcxTransport::UcxTransport(const ConnectOptions& options, std::string store_prefix)
    : options_(options),
      store_prefix_(std::move(store_prefix)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      regions_(std::make_shared<RegionTable>()),
      left_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(options.world_size))) {}

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::Connect(const ConnectOptions& options) {
  if (options.store == nullptr || options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("ucx: rank ", options.rank, " of ", options.world_size, " ranks",
                                                   options.store == nullptr ? ", without a store" : ": ranks count from 0"));
  }
  // Ranks make their transports in the same order: the n-th of each rank meet.
  ZS_ASSIGN_OR_RETURN(const int64_t number, options.store->Add(absl::StrCat("ucx/made/", options.rank), 1));
  return ConnectUnder(options, absl::StrCat("ucx/", number, "/"));
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
  for (size_t i = 0; i < peers.size(); ++i) lines[i] = std::move(peers[i].line);
  interfaces_ = InterfacesOf(lines);
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
    ZS_ASSIGN_OR_RETURN(networks, ChooseNetworks(interfaces_, {.store = &store,
                                                               .rank = options_.rank,
                                                               .world_size = options_.world_size,
                                                               .deadline = deadline,
                                                               .given_up = [this] { return GivenUp(); }}));
  }
  ZS_ASSIGN_OR_RETURN(worker_, UcxWorker::Create(options_.world_size, ways, networks));
  ZS_RETURN_IF_ERROR(ConnectWorkers(store, ways, deadline));
  ZS_RETURN_IF_ERROR(ShareGuard(ways, deadline));
  if (guard_ == nullptr && ways == UcxWays::kSharedMemory) return absl::OkStatus();  // Some rank is elsewhere.
  constexpr int64_t kLong = Mailboxes::kMostBytes + 1;
  ZS_RETURN_IF_ERROR(Greet(kLong, deadline));  // UCX's ways are open from now on.
  if (ways == UcxWays::kAll) {
    ZS_RETURN_IF_ERROR(worker_->Flush(deadline));
    ZS_RETURN_IF_ERROR(Greet(kLong, deadline));
    worker_->StopListening();
  }
  return guard_ == nullptr ? absl::OkStatus() : MoveLines(deadline);
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

// Of a message: what its receiver published, which strangers do not know, and who sends it.
ucp_tag_t UcxTransport::TagOf(int sender, int receiver, Channel channel) const {
  return numbers_[static_cast<size_t>(receiver)] << kSenderBits |
         (static_cast<ucp_tag_t>(sender) * comm::kChannels + static_cast<ucp_tag_t>(channel));
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
  guard_ = std::make_unique<ReadGuard>(*pages_, options_.rank);
  mail_ = std::make_unique<Mailboxes>(*pages_, places.mail, options_.rank, options_.world_size);
  // All ranks are on this host.
  spins_ = options_.world_size <= static_cast<int>(std::thread::hardware_concurrency());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MappedRegion>> UcxTransport::MakeRegion(const std::string& name, int64_t bytes,
                                                                       Deadline deadline) {
  MappingOptions options;
  options.worker = worker_;
  options.store = options_.store;
  options.name = store_prefix_ + name;
  options.rank = options_.rank;
  options.world_size = options_.world_size;
  options.deadline = deadline;
  options.number = [this](int peer) { return number(peer); };
  options.given_up = [this] { return GivenUp(); };
  return MappedRegion::Create(options, bytes);
}

absl::StatusOr<std::unique_ptr<comm::MappedMemory>> UcxTransport::Allocate(int64_t bytes) {
  if (guard_ == nullptr || bytes <= 0) return nullptr;
  const uint64_t number = ++allocated_;
  ZS_ASSIGN_OR_RETURN(
      std::unique_ptr<MappedRegion> region,
      MakeRegion(absl::StrCat("map/", number), bytes, Clock::now() + absl::ToChronoNanoseconds(options_.timeout)));
  LOG_IF(WARNING, !region->mapped())
      << "rank " << this->number(rank()) << ": " << bytes
      << " bytes could not be shared with all ranks, and will be sent in messages; the system's "
         "limit of shared memory may be too low";
  return std::make_unique<AllocatedRegion>(std::move(region), regions_, number);
}

absl::Status UcxTransport::CauseOfCancel() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cancelled_.has_value() ? *cancelled_ : absl::OkStatus();
}

// Why this group is of no use any more; OK where it is.
absl::Status UcxTransport::GivenUp() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cancelled_.has_value()) return *cancelled_;
  if (first_failure_.has_value()) return first_failure_->second;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    if (left_[static_cast<size_t>(peer)].load(std::memory_order_acquire)) {
      return absl::UnavailableError(absl::StrCat("rank ", number(peer), " has left"));
    }
  }
  return absl::OkStatus();
}

void UcxTransport::Cancel(const absl::Status& cause) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled_.has_value()) return;
    cancelled_ = cause;
    if (guard_ != nullptr) guard_->Close();
  }
  stopped_.store(true, std::memory_order_release);
  WakeUp();
  if (lines_ != nullptr) lines_->GiveUp(cause);
}

// Sends that have ended are in their receivers' shared memory. On a network the system has them, or is about to: UCX's flush says
// more, but waits for answers of peers, which need not look any more.
void UcxTransport::Settle() {
  if (guard_ == nullptr) worker_->Settle(kStill, kMostSettling);
}

void UcxTransport::Quiesce() {
  if (worker_ == nullptr || std::exchange(quiet_, true)) return;
  Settle();  // Short sends that ended well are not lost with this operation.
  for (const std::unique_ptr<Record>& record : records_) worker_->Cancel(record->message);
  waiting_.clear();
  worker_->Close();
  if (guard_ == nullptr) return;
  guard_->Close();
  const Clock::time_point end = Clock::now() + kMostReading;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    while (peer != options_.rank && guard_->Reads(peer) && lines_->WhyFailed(peer, absl::ZeroDuration()).ok()) {
      if (Clock::now() >= end) {
        LOG(ERROR) << "rank " << number(rank()) << ": rank " << number(peer)
                   << " still reads memory of this rank, and does not go on";
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

// On the lines' thread.
void UcxTransport::Heard(int peer, const absl::Status& why) {
  std::function<void(int, const absl::Status&)> tell;
  if (why.ok()) {
    left_[static_cast<size_t>(peer)].store(true, std::memory_order_release);
  } else {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!first_failure_.has_value()) {
      first_failure_.emplace(peer, why);
      tell = on_peer_failed_;
    }
    stopped_.store(true, std::memory_order_release);
  }
  WakeUp();
  if (tell != nullptr) tell(peer, why);
}

void UcxTransport::Doing(const comm::OperationHeader& operation) {
  if (lines_ != nullptr) lines_->Doing(operation);
}

void UcxTransport::OnPeerFailed(std::function<void(int rank, const absl::Status& why)> failed) {
  std::optional<std::pair<int, absl::Status>> already;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    on_peer_failed_ = failed;
    already = first_failure_;
  }
  if (already.has_value() && failed != nullptr) failed(already->first, already->second);
}

void UcxTransport::WakeUp() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (mail_ != nullptr) mail_->Ring();
  }
  const uint64_t one = 1;
  // Full means that it is readable already.
  if (write(wake_.get(), &one, sizeof(one)) != sizeof(one) && errno != EAGAIN) LOG(ERROR) << "eventfd: " << strerror(errno);
}

void UcxTransport::ForgetWakes() {
  uint64_t wakes = 0;
  if (read(wake_.get(), &wakes, sizeof(wakes)) < 0 && errno != EAGAIN) LOG(ERROR) << "eventfd: " << strerror(errno);
}

uint64_t UcxTransport::MapKey(const void* data, int64_t bytes) {
  return guard_ == nullptr ? 0 : regions_->KeyOf(data, bytes);
}

const void* UcxTransport::MappedAddress(int peer, uint64_t key, int64_t bytes) {
  return regions_->AddressOf(peer, key, bytes);
}

absl::Status UcxTransport::BeginRead(int peer) {
  if (stopped_.load(std::memory_order_acquire)) return GivenUp();
  if (guard_->Begin(peer)) return absl::OkStatus();
  Record read;
  read.peer = peer;
  return Gone(read, absl::OkStatus());
}

absl::StatusOr<std::unique_ptr<comm::Transport>> UcxTransport::Split(const comm::SplitSpec& spec) {
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> transport,
                      ConnectUnder(OfSplit(options_, spec.members, spec.rank, spec.timeout),
                                   absl::StrCat(store_prefix_, spec.id, ".", spec.members[0], "/")));
  return std::unique_ptr<comm::Transport>(std::move(transport));
}

UcxTransport::~UcxTransport() {
  if (lines_ != nullptr && worker_ != nullptr && CauseOfCancel().ok()) {
    Settle();
    lines_->TakeLeave();
  }
  Quiesce();
  lines_.reset();
  if (worker_ != nullptr) worker_->KeepAlive(std::make_shared<decltype(records_)>(std::move(records_)));
}

}  // namespace zeroshard::backends
