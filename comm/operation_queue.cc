#include "zeroshard/comm/operation_queue.h"

namespace zeroshard::comm {

void OperationQueue::Push(Operation& operation) {
  const size_t queued = queued_.load(std::memory_order_relaxed);
  queue_[(first_ + queued) % kMost] = &operation;
  queued_.store(queued + 1, std::memory_order_seq_cst);
}

void OperationQueue::TakeBack(uint64_t held) {
  Operation* const operation = held_.load(std::memory_order_relaxed);  // of `held`, if that is what state_ is
  if (held == kIdle || held == kRuns || !state_.compare_exchange_strong(held, kRuns)) return;
  Push(*operation);
  state_.store(kIdle, std::memory_order_seq_cst);
}

void OperationQueue::Add(Operation& operation) {
  // Idle: none is held back, so the queue only shrinks from here on. Once more: whoever took its last one runs it by then.
  const auto idle = [this] { return state_.load(std::memory_order_acquire) == kIdle; };
  if (operation.wait_at_once && idle() && queued_.load(std::memory_order_acquire) == 0 && idle()) {
    held_.store(&operation, std::memory_order_relaxed);
    state_.store(Held(operation.ticket), std::memory_order_release);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TakeBack(state_.load(std::memory_order_acquire));
    Push(operation);
  }
  wake_.notify_one();
}

Operation* OperationQueue::Claim(uint64_t ticket) {
  uint64_t held = Held(ticket);
  if (state_.load(std::memory_order_acquire) != held) return nullptr;
  Operation* const operation = held_.load(std::memory_order_relaxed);
  if (!state_.compare_exchange_strong(held, kRuns)) return nullptr;
  runs_.store(ticket, std::memory_order_relaxed);
  return operation;
}

void OperationQueue::HandOver(uint64_t ticket) {
  if (state_.load(std::memory_order_acquire) != Held(ticket)) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TakeBack(Held(ticket));
  }
  wake_.notify_one();
}

Operation* OperationQueue::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const size_t queued = queued_.load(std::memory_order_relaxed);
    uint64_t idle = kIdle;
    if (queued > 0 && state_.compare_exchange_strong(idle, kRuns)) {
      Operation* const operation = queue_[first_];
      runs_.store(operation->ticket, std::memory_order_relaxed);
      first_ = (first_ + 1) % kMost;
      queued_.store(queued - 1, std::memory_order_release);
      return operation;
    }
    if (queued == 0 && stop_) return nullptr;
    wake_.wait(lock);
  }
}

// What was added meanwhile found somebody running, and waits for a call: it was queued before it looked, or is seen here.
void OperationQueue::Done() {
  state_.store(kIdle, std::memory_order_seq_cst);
  if (queued_.load(std::memory_order_seq_cst) == 0) return;
  { const std::lock_guard<std::mutex> lock(mutex_); }
  wake_.notify_one();
}

bool OperationQueue::Stop() {
  bool left = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TakeBack(state_.load(std::memory_order_acquire));
    stop_ = true;
    const bool ended = ended_.load(std::memory_order_relaxed) == runs_.load(std::memory_order_relaxed);
    left = queued_.load(std::memory_order_relaxed) > 0 || (busy() && !ended);
  }
  wake_.notify_all();
  return left;
}

}  // namespace zeroshard::comm
