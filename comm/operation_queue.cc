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

void OperationQueue::AddForThread(Operation& operation) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TakeBack(state_.load(std::memory_order_acquire));
    Push(operation);
  }
  wake_.notify_one();
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

void OperationQueue::Wake() {
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
