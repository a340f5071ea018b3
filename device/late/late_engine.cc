#include "zeroshard/device/late/late_engine.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device {
namespace {

// Tells every engine that this thread used that the thread ended.
class ThreadEnd {
 public:
  ~ThreadEnd() {
    for (const std::weak_ptr<LateEngine>& weak : engines_) {
      if (const auto engine = weak.lock()) engine->EndThread(std::this_thread::get_id());
    }
  }
  void Add(std::weak_ptr<LateEngine> engine) { engines_.push_back(std::move(engine)); }

 private:
  std::vector<std::weak_ptr<LateEngine>> engines_;
};

ThreadEnd& ThisThreadsEnd() {
  thread_local ThreadEnd end;
  return end;
}

}  // namespace

LateEngine::~LateEngine() {
  for (Queue& queue : queues_) {
    for (Item& item : queue.queued) {
      if (item.destroy != nullptr) item.destroy(item.closure);
    }
  }
}

absl::StatusOr<uint64_t> LateEngine::Allocate(int64_t bytes, std::string_view what) {
  std::lock_guard<std::mutex> lock(mutex_);
  return memory_.Allocate(bytes, what);
}

void LateEngine::Free(uint64_t address, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Queue& queue : queues_) {
    for (const Item& item : queue.queued) {
      for (const Access& a : item.accesses) {
        if (a.address >= address + static_cast<uint64_t>(bytes) || address >= a.address + static_cast<uint64_t>(a.bytes))
          continue;
        EndTest(
            absl::StrFormat("\"%s\" is dropped while \"%s\" that uses it is queued", memory_.NameAt(address), item.name));
      }
    }
  }
  memory_.Free(address);
}

int LateEngine::AddStream(StreamKind kind) {
  std::lock_guard<std::mutex> lock(mutex_);
  queues_.emplace_back().kind = kind;
  return static_cast<int>(queues_.size()) - 1;
}

// See "Note: Who knows of what".
Clock& LateEngine::ThreadClock() {
  const auto [entry, is_new] = threads_.try_emplace(std::this_thread::get_id());
  Clock& clock = entry->second;
  if (is_new) {
    ThisThreadsEnd().Add(weak_from_this());
    clock.Merge(everything_);
  }
  clock.Merge(handed_over_);
  return clock;
}

void LateEngine::EndThread(std::thread::id id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = threads_.find(id);
  if (entry == threads_.end()) return;
  handed_over_.Merge(entry->second);
  threads_.erase(entry);
}

LateEngine::Item& LateEngine::Add(Queue& queue, int stream, const char* name, std::span<const Access> accesses) {
  queue.clock.Merge(ThreadClock());
  queue.unused.clear();
  const uint64_t sequence = ++queue.issued;
  // First the reads: an operation may read and write the same memory.
  for (const bool write : {false, true}) {
    for (const Access& access : accesses) {
      if ((access.mode != AccessMode::kRead) == write) memory_.Log(name, access, stream, sequence, queue.clock);
    }
  }
  queue.clock.Advance(stream, sequence);
  Item& item = queue.queued.emplace_back();
  item.sequence = sequence;
  item.name = name;
  item.accesses.assign(accesses.begin(), accesses.end());
  return item;
}

void LateEngine::Enqueue(int stream, const Operation& operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  Queue& queue = queues_[static_cast<size_t>(stream)];
  Item& item = Add(queue, stream, operation.name, operation.accesses);
  item.closure = operation.clone(operation.closure);
  item.run = operation.run;
  item.destroy = operation.destroy;
  RunAsOptionsSay(queue);
}

void LateEngine::EnqueuePolled(int stream, const char* name, std::span<const Access> accesses, Poll poll) {
  std::lock_guard<std::mutex> lock(mutex_);
  Queue& queue = queues_[static_cast<size_t>(stream)];
  Add(queue, stream, name, accesses).poll = std::move(poll);
  RunAsOptionsSay(queue);
}

void LateEngine::RunAsOptionsSay(Queue& queue) {
  switch (options_.order) {
    case LateOrder::kLazy:
      return;
    case LateOrder::kAtOnce:
      TryDemand(queue, queue.issued);
      return;
    case LateOrder::kOneFirst:
      if (queue.kind == options_.first) TryDemand(queue, queue.issued);
      return;
    case LateOrder::kRandom:
      while (random_() % 3 == 0 && RunAny()) {
      }
      return;
  }
}

bool LateEngine::IsReady(const Queue& queue) const {
  if (queue.queued.empty()) return false;
  const Item& item = queue.queued.front();
  return item.on < 0 || queues_[static_cast<size_t>(item.on)].done >= item.on_sequence;
}

bool LateEngine::RunFront(Queue& queue) {
  Item& item = queue.queued.front();
  if (item.poll && !item.poll(memory_)) return false;
  if (item.run != nullptr) {
    item.run(item.closure, memory_);
    item.destroy(item.closure);
  }
  queue.done = item.sequence;
  queue.queued.pop_front();
  return true;
}

// Only what `queue` needs to come to `sequence`: everything else stays late. A wait is for what was issued before it, so
// this ends.
bool LateEngine::TryDemand(Queue& queue, uint64_t sequence) {
  while (queue.done < sequence) {
    if (IsReady(queue)) {
      if (!RunFront(queue)) return false;
      continue;
    }
    const Item& wait = queue.queued.front();
    if (!TryDemand(queues_[static_cast<size_t>(wait.on)], wait.on_sequence)) return false;
  }
  return true;
}

// While an operation says "not yet" the lock is given up, and now and then something else runs, which a peer may be waiting for.
void LateEngine::Demand(std::unique_lock<std::mutex>& lock, Queue& queue, uint64_t sequence) {
  constexpr int kPollsBeforeOthers = 16;
  constexpr std::chrono::microseconds kBetweenPolls(50);
  for (int polls = 1; !TryDemand(queue, sequence); ++polls) {
    if (polls % kPollsBeforeOthers == 0 && RunAny()) continue;
    lock.unlock();
    std::this_thread::sleep_for(kBetweenPolls);
    lock.lock();
  }
}

bool LateEngine::RunAny() {
  std::vector<Queue*> ready;
  for (Queue& queue : queues_) {
    if (IsReady(queue)) ready.push_back(&queue);
  }
  while (!ready.empty()) {
    const size_t chosen = random_() % ready.size();
    if (RunFront(*ready[chosen])) return true;
    ready.erase(ready.begin() + static_cast<ptrdiff_t>(chosen));
  }
  return false;
}

void LateEngine::Synchronize(int stream) {
  std::unique_lock<std::mutex> lock(mutex_);
  Queue& queue = queues_[static_cast<size_t>(stream)];
  queue.unused.clear();
  const Clock clock = queue.clock;
  Demand(lock, queue, queue.issued);
  ThreadClock().Merge(clock);
  everything_.Merge(clock);
}

size_t LateEngine::Queued(int stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  return queues_[static_cast<size_t>(stream)].queued.size();
}

void LateEngine::Drain(int stream) {
  std::unique_lock<std::mutex> lock(mutex_);
  Queue& queue = queues_[static_cast<size_t>(stream)];
  Demand(lock, queue, queue.issued);
}

void LateEngine::Record(int stream, LateRecord& record) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Queue& queue = queues_[static_cast<size_t>(stream)];
    queue.clock.Merge(ThreadClock());
    queue.unused.clear();
    record.expected = false;
    record.stream = stream;
    record.sequence = queue.issued;
    record.clock = queue.clock;
  }
  recorded_.notify_all();
}

void LateEngine::AwaitRecord(std::unique_lock<std::mutex>& lock, const LateRecord& record) {
  recorded_.wait(lock, [&] { return !record.expected; });
}

void LateEngine::Wait(int stream, const LateRecord& record) {
  std::unique_lock<std::mutex> lock(mutex_);
  AwaitRecord(lock, record);
  if (record.stream < 0) return;
  Queue& queue = queues_[static_cast<size_t>(stream)];
  queue.clock.Merge(ThreadClock());
  if (!queue.clock.Knows(record.clock)) {
    const int64_t index = CountWait(queue, record.clock);
    if (left_out_ && left_out_->stream == stream && left_out_->index == index) return;
  }
  queue.clock.Merge(record.clock);
  Item item;
  item.sequence = ++queue.issued;
  item.on = record.stream;
  item.on_sequence = record.sequence;
  queue.queued.push_back(std::move(item));
  RunAsOptionsSay(queue);
}

// The item itself adds nothing to what the queue knows.
int64_t LateEngine::CountWait(Queue& queue, const Clock& told) {
  for (const auto& [index, earlier] : queue.unused) {
    if (told.Knows(earlier)) queue.told_again[index] = true;
  }
  const size_t index = queue.told_again.size();
  queue.told_again.push_back(false);
  queue.unused.emplace_back(index, told);
  return static_cast<int64_t>(index);
}

void LateEngine::Expect(LateRecord& record) {
  std::lock_guard<std::mutex> lock(mutex_);
  record.expected = true;
  handed_over_.Merge(ThreadClock());
}

void LateEngine::HandOver() {
  std::lock_guard<std::mutex> lock(mutex_);
  handed_over_.Merge(ThreadClock());
}

bool LateEngine::Progress() {
  std::lock_guard<std::mutex> lock(mutex_);
  return RunAny();
}

bool LateEngine::IsDone(const LateRecord& record) const {
  return record.stream < 0 || queues_[static_cast<size_t>(record.stream)].done >= record.sequence;
}

// Asking lets one operation run, so that a loop of questions ends.
bool LateEngine::Done(const LateRecord& record) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (record.expected) return false;
  if (!IsDone(record)) RunAny();
  if (!IsDone(record)) return false;
  ThreadClock().Merge(record.clock);
  everything_.Merge(record.clock);
  return true;
}

void LateEngine::Synchronize(const LateRecord& record) {
  std::unique_lock<std::mutex> lock(mutex_);
  AwaitRecord(lock, record);
  if (record.stream < 0) return;
  const Clock clock = record.clock;
  Demand(lock, queues_[static_cast<size_t>(record.stream)], record.sequence);
  ThreadClock().Merge(clock);
  everything_.Merge(clock);
}

std::vector<WaitPoint> LateEngine::waits() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<WaitPoint> points;
  for (size_t s = 0; s < queues_.size(); ++s) {
    const std::vector<bool>& told_again = queues_[s].told_again;
    for (size_t i = 0; i < told_again.size(); ++i) {
      if (!told_again[i]) points.push_back({static_cast<int>(s), static_cast<int64_t>(i)});
    }
  }
  return points;
}

void LateEngine::LeaveOutWait(const WaitPoint& point) {
  std::lock_guard<std::mutex> lock(mutex_);
  left_out_ = point;
}

}  // namespace zeroshard::device
