#include "zeroshard/backends/in_process/in_process_transport.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "zeroshard/comm/rank_watch.h"

namespace zeroshard::backends {
namespace {

using comm::Channel;
using comm::Deadline;
using comm::Transfer;
using Clock = Endpoint::Clock;

// Longer than any test.
constexpr std::chrono::hours kForever{24};

// One of the well-mixed 64-bit numbers of a seed (splitmix64).
uint64_t Mixed(uint64_t seed) {
  seed += 0x9e3779b97f4a7c15;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
  return seed ^ (seed >> 31);
}

double UniformOf(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

std::vector<InProcessGroup::Member> MembersFromZero(int count, int ranks_per_host) {
  std::vector<InProcessGroup::Member> members;
  for (int rank = 0; rank < count; ++rank) {
    members.push_back({rank, std::make_shared<comm::WaitBoard>(), ranks_per_host == 0 ? 0 : rank / ranks_per_host});
  }
  return members;
}

// What the peers of a rank that fails with `cause` are told.
absl::Status GaveUp(int rank, const absl::Status& cause) {
  const absl::StatusCode code =
      absl::IsFailedPrecondition(cause) ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable;
  return absl::Status(code, absl::StrCat("rank ", rank, " gave up: ", cause.message()));
}

class InProcessTransport final : public comm::Transport {
 public:
  InProcessTransport(std::shared_ptr<InProcessGroup> group, int rank)
      : group_(std::move(group)),
        me_(group_->endpoint(rank)),
        random_(Mixed(group_->faults().seed ^ Mixed(static_cast<uint64_t>(rank)))) {
    for (size_t i = 0; i < UsualTransfers(world_size()); ++i) AddRecord();
  }

  ~InProcessTransport() override {
    me_.Listen(nullptr);
    me_.CloseMemory();
    TakeBackAll();
    me_.Leave();
    group_->WakeAll();
  }

  int rank() const override { return me_.rank(); }
  int world_size() const override { return group_->world_size(); }
  int number(int rank) const override { return group_->endpoint(rank).number(); }
  std::string_view name() const override { return "in_process"; }
  int host(int rank) const override { return group_->host(rank); }

  Transfer Send(int peer, Channel channel, const void* data, int64_t bytes) override {
    const uint64_t id = Post(/*sends=*/true, peer, channel, const_cast<void*>(data), bytes);
    Record& record = *records_[id - 1];
    if (!MeetFate() || Lost(peer, channel)) {
      record.other_bytes = bytes;
      record.state.store(Record::kDone, std::memory_order_release);
    } else {
      group_->endpoint(peer).Put(record, Ripe());
    }
    return {id};
  }

  Transfer Receive(int peer, Channel channel, void* data, int64_t bytes) override {
    const uint64_t id = Post(/*sends=*/false, peer, channel, data, bytes);
    me_.Want(*records_[id - 1]);
    return {id};
  }

  absl::Status Wait(Transfer transfer, Deadline deadline) override {
    Record& record = *records_[transfer.id - 1];
    me_.StandStill();
    const absl::Status ended =
        me_.Await(record, group_->endpoint(record.peer), deadline, [this, &record] { return Late(record); });
    if (!ended.ok()) return ended;
    const int64_t other = record.other_bytes;
    record.state.store(Record::kFree, std::memory_order_relaxed);
    free_.push_back(transfer.id);
    if (other == record.bytes) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", number(record.sends ? rank() : record.peer), " sent ", record.sends ? record.bytes : other,
        " bytes and rank ", number(record.sends ? record.peer : rank()), " receives ", record.sends ? other : record.bytes));
  }

  void Cancel(const absl::Status& cause) override {
    if (cancelled_.exchange(true)) return;
    me_.Fail(cause);
    me_.CloseMemory();
    me_.Wake();
    group_->TellAll(rank(), GaveUp(me_.number(), cause));
  }

  void Doing(const comm::OperationHeader& operation) override { me_.Doing(operation); }

  void Quiesce() override {
    me_.CloseMemory();  // Cancel may be under way on another thread still.
    TakeBackAll();
  }

  void OnPeerFailed(std::function<void(int, const absl::Status&)> failed) override { me_.Listen(std::move(failed)); }

  bool maps_memory() const override { return group_->mapped(); }
  uint64_t MapKey(const void* data, int64_t /*bytes*/) override {
    return group_->mapped() ? reinterpret_cast<uint64_t>(data) : 0;
  }
  void* MappedAddress(int /*peer*/, uint64_t key, int64_t /*bytes*/) override { return reinterpret_cast<void*>(key); }
  absl::Status BeginAccess(int peer) override {
    if (me_.failed()) return me_.failure();
    Endpoint& theirs = group_->endpoint(peer);
    if (theirs.BeginAccess()) return absl::OkStatus();
    if (me_.failed()) return me_.failure();
    return theirs.failed() ? GaveUp(theirs.number(), theirs.failure())
                           : absl::UnavailableError(absl::StrCat("rank ", theirs.number(), " has left"));
  }
  void EndAccess(int peer) override { group_->endpoint(peer).EndAccess(); }

  absl::StatusOr<std::unique_ptr<comm::Transport>> Split(const comm::SplitSpec& spec) override {
    return MakeInProcessTransport(group_->Child(spec.id, {spec.members.begin(), spec.members.end()}), spec.rank);
  }

 private:
  void AddRecord() {
    records_.push_back(std::make_unique<Record>());
    free_.reserve(records_.capacity());
    free_.push_back(records_.size());
  }

  // A record's number, from 1.
  uint64_t Post(bool sends, int peer, Channel channel, void* data, int64_t bytes) {
    if (free_.empty()) AddRecord();
    const uint64_t id = free_.back();
    free_.pop_back();
    Record& record = *records_[id - 1];
    record.owner = &me_;
    record.sends = sends;
    record.peer = peer;
    record.channel = channel;
    record.data = data;
    record.bytes = bytes;
    record.state.store(Record::kPosted, std::memory_order_release);
    return id;
  }

  void TakeBackAll() {
    for (const std::unique_ptr<Record>& record : records_) {
      if (record->state.load(std::memory_order_acquire) != Record::kPosted) continue;
      (record->sends ? group_->endpoint(record->peer) : me_).TakeBack(*record);
    }
    me_.AwaitQuiet(records_);
  }

  absl::Status Late(const Record& record) const {
    const std::string why = comm::WhyLate(rank(), record.peer, world_size(),
                                          [this](int suspect) { return group_->endpoint(suspect).Testify(); });
    return absl::DeadlineExceededError(absl::StrCat(why, "; rank ", number(record.peer),
                                                    record.sends ? " did not take " : " did not send ", record.bytes,
                                                    " bytes before the deadline"));
  }

  // Whether this rank still sends.
  bool MeetFate() {
    const Faults& faults = group_->faults();
    if (faults.victim == rank() && sends_++ == faults.at_send) {
      if (faults.fate == Fate::kDeath) {
        group_->Kill(rank());
      } else {
        const bool forever = faults.freeze_for == absl::InfiniteDuration();
        me_.Freeze(Clock::now() + (forever ? Clock::duration(kForever) : absl::ToChronoNanoseconds(faults.freeze_for)));
      }
    }
    me_.StandStill();
    return !me_.dead();
  }

  // What follows a lost message on an ordered channel does not arrive either.
  bool Lost(int peer, Channel channel) {
    const double loss = group_->faults().loss;
    if (loss <= 0) return false;
    lost_.resize(static_cast<size_t>(world_size() * comm::kChannels));
    char& lost = lost_[static_cast<size_t>(peer * comm::kChannels + static_cast<int>(channel))];
    if (UniformOf(random_ = Mixed(random_)) < loss) lost = 1;
    return lost != 0;
  }

  Clock::time_point Ripe() {
    const absl::Duration most = group_->faults().max_delay;
    if (most <= absl::ZeroDuration()) return Clock::time_point::min();
    return Clock::now() + absl::ToChronoNanoseconds(most * UniformOf(random_ = Mixed(random_)));
  }

  const std::shared_ptr<InProcessGroup> group_;
  Endpoint& me_;
  std::vector<std::unique_ptr<Record>> records_;
  std::vector<uint64_t> free_;
  std::atomic<bool> cancelled_{false};
  int64_t sends_ = 0;  // of a victim
  uint64_t random_;
  std::vector<char> lost_;  // of a peer and channel: nothing arrives there any more
};

}  // namespace

InProcessGroup::InProcessGroup(int world_size, bool mapped, const Faults& faults, int ranks_per_host)
    : InProcessGroup(MembersFromZero(world_size, ranks_per_host), mapped, faults) {}

InProcessGroup::InProcessGroup(const std::vector<Member>& members, bool mapped, const Faults& faults)
    : mapped_(mapped), faults_(faults), members_(members) {
  const int world_size = static_cast<int>(members.size());
  for (const Member& member : members) {
    const int rank = static_cast<int>(endpoints_.size());
    endpoints_.push_back(std::make_unique<Endpoint>(rank, world_size, member.number, member.waits));
    int lowest = 0;
    while (members[static_cast<size_t>(lowest)].host != member.host) ++lowest;
    hosts_.push_back(lowest);
  }
}

std::shared_ptr<InProcessGroup> InProcessGroup::Child(uint64_t id, const std::vector<int>& members) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto key = std::make_pair(id, members);
  Birth& birth = births_[key];
  if (birth.group == nullptr) {
    Faults faults = faults_;
    faults.victim = -1;
    std::vector<Member> them;
    for (int member : members) them.push_back(members_[static_cast<size_t>(member)]);
    birth.group = std::make_shared<InProcessGroup>(them, mapped_, faults);
  }
  std::shared_ptr<InProcessGroup> group = birth.group;
  if (++birth.joined == members.size()) births_.erase(key);
  return group;
}

void InProcessGroup::TellAll(int rank, const absl::Status& why) {
  for (const std::unique_ptr<Endpoint>& endpoint : endpoints_) {
    if (endpoint->rank() != rank && endpoint->Fail(why)) endpoint->Tell(rank, why);
  }
}

void InProcessGroup::Kill(int rank) {
  endpoint(rank).Die();
  // The others first: its own last words are not heard.
  TellAll(rank, absl::UnavailableError(absl::StrCat("rank ", endpoint(rank).number(), " is gone (fault injection)",
                                                    comm::kItsLastOperation, endpoint(rank).Last())));
  endpoint(rank).Fail(
      absl::UnavailableError(absl::StrCat("rank ", endpoint(rank).number(), " was killed by fault injection")));
}

void InProcessGroup::Freeze(int rank) { endpoint(rank).Freeze(Clock::now() + kForever); }

void InProcessGroup::Thaw(int rank) { endpoint(rank).Thaw(); }

void InProcessGroup::WakeAll() {
  for (const std::unique_ptr<Endpoint>& endpoint : endpoints_) endpoint->Wake();
}

std::unique_ptr<comm::Transport> MakeInProcessTransport(std::shared_ptr<InProcessGroup> group, int rank) {
  return std::make_unique<InProcessTransport>(std::move(group), rank);
}

}  // namespace zeroshard::backends
