#include "zeroshard/backends/ucx/ucx_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "glog/logging.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

using comm::Deadline;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long what was sent may take to be on its way, when this rank ends.
constexpr milliseconds kMostSettling{100};
// How long a rank that gives up waits for peers that touch its memory: a piece of a schedule takes far less.
constexpr milliseconds kMostTouching{2000};
// Nothing of what was sent waits for the system any more when nothing has moved for so long.
constexpr milliseconds kStill{2};

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
      hosts_(static_cast<size_t>(options.world_size)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      regions_(std::make_shared<RegionTable>()),
      left_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(options.world_size))) {}

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
  const Clock::time_point end = Clock::now() + kMostTouching;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    while (peer != options_.rank && guard_->Touches(peer) && lines_->WhyFailed(peer, absl::ZeroDuration()).ok()) {
      if (Clock::now() >= end) {
        LOG(ERROR) << "rank " << number(rank()) << ": rank " << number(peer)
                   << " still touches memory of this rank, and does not go on";
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

void UcxTransport::Met(std::span<const int> peers) {
  if (lines_ != nullptr) lines_->Met(peers);
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

void* UcxTransport::MappedAddress(int peer, uint64_t key, int64_t bytes) { return regions_->AddressOf(peer, key, bytes); }

absl::Status UcxTransport::BeginAccess(int peer) {
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
