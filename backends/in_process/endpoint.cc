#include "zeroshard/backends/in_process/endpoint.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/rank_watch.h"

namespace zeroshard::backends {
namespace {

// About 4 us of pauses: longer than a hand-over between running threads, shorter than a sleep and a wake.
constexpr int kSpins = 100;

template <class T>
void Erase(std::vector<T*>& list, const T* item) {
  list.erase(std::find(list.begin(), list.end(), item));
}

}  // namespace

Endpoint::Endpoint(int rank, int world_size, int number, std::shared_ptr<comm::WaitBoard> waits)
    : rank_(rank), number_(number), waits_(std::move(waits)), place_(waits_) {
  const size_t usual = UsualTransfers(world_size);
  messages_.reserve(usual);
  receives_.reserve(usual);
  for (size_t i = 0; i < usual; ++i) AddMessage();
}

void Endpoint::AddMessage() {
  all_messages_.push_back(std::make_unique<Message>());
  free_messages_.reserve(all_messages_.capacity());
  free_messages_.push_back(all_messages_.back().get());
}

void Endpoint::Put(Record& record, Clock::time_point ripe) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (free_messages_.empty()) AddMessage();
  Message* message = free_messages_.back();
  free_messages_.pop_back();
  message->source = record.owner->rank();
  message->channel = record.channel;
  message->bytes = record.bytes;
  message->ripe = ripe;
  message->sender = &record;
  const bool eager = record.bytes <= comm::kEagerBytes;
  if (eager) {
    std::memcpy(message->eager.data(), record.data, static_cast<size_t>(record.bytes));
    message->sender = nullptr;
  }
  messages_.push_back(message);
  delayed_ = delayed_ || ripe != Clock::time_point::min();
  if (delayed_) {
    changed_.notify_one();  // The receiver delivers it when it is ripe.
  } else if (auto meeting = FindMeeting(message->source, message->channel, Clock::time_point::max())) {
    Deliver(*meeting, lock);
  }
  if (lock.owns_lock()) lock.unlock();
  if (eager) {
    record.other_bytes = record.bytes;
    record.state.store(Record::kDone, std::memory_order_release);  // Nobody waits yet: its owner is here.
  }
}

void Endpoint::Want(Record& record) {
  std::unique_lock<std::mutex> lock(mutex_);
  receives_.push_back(&record);
  const Clock::time_point now = delayed_ ? Clock::now() : Clock::time_point::max();
  if (auto meeting = FindMeeting(record.peer, record.channel, now)) Deliver(*meeting, lock);
}

std::optional<Endpoint::Meeting> Endpoint::FindMeeting(int source, comm::Channel channel, Clock::time_point now) {
  const auto message = std::find_if(messages_.begin(), messages_.end(),
                                    [&](const Message* m) { return m->source == source && m->channel == channel; });
  if (message == messages_.end() || (*message)->ripe > now) return std::nullopt;
  const auto receiver = std::find_if(receives_.begin(), receives_.end(),
                                     [&](const Record* r) { return r->peer == source && r->channel == channel; });
  if (receiver == receives_.end()) return std::nullopt;
  return Meeting{*message, *receiver};
}

std::optional<Endpoint::Meeting> Endpoint::FindAnyMeeting(Clock::time_point now, Clock::time_point* next) {
  for (const Record* receive : receives_) {
    if (auto meeting = FindMeeting(receive->peer, receive->channel, now)) return meeting;
  }
  for (const Message* message : messages_) {
    if (message->ripe > now) *next = std::min(*next, message->ripe);
  }
  return std::nullopt;
}

void Endpoint::Deliver(Meeting meeting, std::unique_lock<std::mutex>& lock) {
  Message& message = *meeting.message;
  Record& receiver = *meeting.receiver;
  Record* const sender = message.sender;
  Erase(messages_, meeting.message);
  Erase(receives_, meeting.receiver);
  receiver.state.store(Record::kCopying, std::memory_order_relaxed);
  if (sender != nullptr) sender->state.store(Record::kCopying, std::memory_order_relaxed);
  lock.unlock();
  receiver.other_bytes = message.bytes;
  if (sender != nullptr) sender->other_bytes = receiver.bytes;
  const void* from = sender != nullptr ? sender->data : message.eager.data();
  std::memcpy(receiver.data, from, static_cast<size_t>(std::min(message.bytes, receiver.bytes)));
  lock.lock();
  free_messages_.push_back(meeting.message);
  lock.unlock();
  End(receiver);
  if (sender != nullptr) End(*sender);
}

void Endpoint::End(Record& record) {
  Endpoint& owner = *record.owner;
  std::lock_guard<std::mutex> lock(owner.mutex_);
  record.state.store(Record::kDone, std::memory_order_release);
  owner.changed_.notify_one();
}

absl::Status Endpoint::Await(Record& record, const Endpoint& peer, Clock::time_point deadline,
                             absl::FunctionRef<absl::Status()> late) {
  for (int i = 0; i < kSpins && record.state.load(std::memory_order_acquire) != Record::kDone; ++i) __builtin_ia32_pause();
  if (record.state.load(std::memory_order_acquire) == Record::kDone) return absl::OkStatus();
  waits_for_.store(record.peer, std::memory_order_relaxed);
  place_.Set(peer.number());
  std::unique_lock<std::mutex> lock(mutex_);
  while (record.state.load(std::memory_order_acquire) != Record::kDone) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = deadline;
    const bool peer_left = peer.left();  // Before the look at its messages: they came before it left.
    if (delayed_) {
      if (auto meeting = FindAnyMeeting(now, &next)) {
        Deliver(*meeting, lock);
        lock.lock();
        continue;
      }
    }
    if (!failure_.ok()) return failure_;
    const bool open = record.state.load(std::memory_order_acquire) == Record::kPosted;
    const bool coming = std::any_of(messages_.begin(), messages_.end(), [&](const Message* m) {
      return !record.sends && m->source == record.peer && m->channel == record.channel;
    });
    if (peer_left && open && !coming) return absl::UnavailableError(absl::StrCat("rank ", peer.number(), " has left"));
    if (now >= deadline) {
      lock.unlock();
      return late();
    }
    changed_.wait_until(lock, next);
  }
  waits_for_.store(-1, std::memory_order_relaxed);
  place_.Set(-1);
  return absl::OkStatus();
}

void Endpoint::TakeBack(Record& record) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (record.state.load(std::memory_order_acquire) != Record::kPosted) return;
  if (record.sends) {
    const auto message =
        std::find_if(messages_.begin(), messages_.end(), [&](const Message* m) { return m->sender == &record; });
    if (message != messages_.end()) {
      free_messages_.push_back(*message);
      messages_.erase(message);
    }
  } else {
    const auto receive = std::find(receives_.begin(), receives_.end(), &record);
    if (receive != receives_.end()) receives_.erase(receive);
  }
  record.state.store(Record::kDone, std::memory_order_release);
}

bool Endpoint::Fail(const absl::Status& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return false;
  failure_ = why;
  failed_.store(true, std::memory_order_release);
  changed_.notify_one();
  return true;
}

absl::Status Endpoint::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

bool Endpoint::BeginAccess() {
  touching_.fetch_add(1);
  if (!closed_.load()) return true;
  EndAccess();
  return false;
}

void Endpoint::EndAccess() {
  if (touching_.fetch_sub(1) == 1 && closed_.load()) Wake();
}

void Endpoint::AwaitQuiet(const std::vector<std::unique_ptr<Record>>& records) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] {
    return touching_.load() == 0 && std::none_of(records.begin(), records.end(), [](const std::unique_ptr<Record>& r) {
             return r->state.load(std::memory_order_acquire) == Record::kCopying;
           });
  });
}

void Endpoint::Wake() {
  std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

void Endpoint::Doing(const comm::OperationHeader& operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  doing_ = operation;
}

comm::Testimony Endpoint::Testify() const {
  const std::string who = absl::StrCat("rank ", number_);
  std::lock_guard<std::mutex> lock(mutex_);
  if (left()) return {.words = who + " has left"};
  if (!failure_.ok()) return {.words = absl::StrCat(who, " gave up: ", failure_.message())};
  if (frozen_.load(std::memory_order_acquire)) {
    return {.words =
                absl::StrCat(who, " does not answer: it stands still", comm::kItsLastOperation, comm::DescribeLast(doing_))};
  }
  return {.answers = true,
          .waits_for = waits_for_.load(std::memory_order_relaxed),
          .number = number_,
          .words = absl::StrCat(who, " answers, and ",
                                doing_.magic == 0 ? "has begun no operation" : "was last in " + comm::Describe(doing_),
                                comm::DescribeElsewhere(place_.Elsewhere()))};
}

std::string Endpoint::Last() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return comm::DescribeLast(doing_);
}

void Endpoint::Freeze(Clock::time_point until) {
  std::lock_guard<std::mutex> lock(mutex_);
  frozen_until_ = until;
  frozen_.store(true, std::memory_order_release);
}

void Endpoint::Thaw() {
  std::lock_guard<std::mutex> lock(mutex_);
  frozen_.store(false, std::memory_order_release);
  changed_.notify_all();
}

void Endpoint::StandStill() {
  if (!frozen_.load(std::memory_order_acquire)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, frozen_until_, [this] { return !frozen_.load(std::memory_order_acquire) || closed_.load(); });
  frozen_.store(false, std::memory_order_release);
}

void Endpoint::Listen(std::function<void(int, const absl::Status&)> listener) {
  std::lock_guard<std::mutex> lock(listener_mutex_);
  listener_ = std::move(listener);
}

void Endpoint::Tell(int rank, const absl::Status& why) {
  std::lock_guard<std::mutex> lock(listener_mutex_);
  if (listener_) listener_(rank, why);
}

}  // namespace zeroshard::backends
