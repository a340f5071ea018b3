// OperationQueue: the operations of a communicator that wait to be run, in order of issue; one runs at a time.
//
// A thread runs them as they come. One that its caller is going to wait for at once, and before which there is none, is held back for
// the caller: it is added, claimed and done without a lock, and nobody is woken.
//
// Example:
//   queue.Add(operation);
//   if (Operation* mine = queue.Claim(ticket)) { Run(*mine); queue.Done(); }      // the caller, in its wait
//   while (Operation* next = queue.Next()) { Run(*next); queue.Done(); }          // the thread
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "zeroshard/comm/operation.h"

namespace zeroshard::comm {

class OperationQueue {
 public:
  static constexpr size_t kMost = 256;  // in the queue at once

  // By one thread at a time; `operation` stays where it is until it was run.
  void Add(Operation& operation);
  // The operation of that ticket, which the caller now runs; null where it was not held back, or is not any more.
  Operation* Claim(uint64_t ticket);
  // Leaves the operation of that ticket to the thread, where it was held back.
  void HandOver(uint64_t ticket);
  // For the thread: holds it until there is an operation to run. Null once there is none and Stop was called.
  Operation* Next();
  // What Claim or Next gave has ended: whoever waits for it hears so from now on. Done follows.
  void Ended() { ended_.store(runs_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  // It was run.
  void Done();
  // Whether somebody runs one; in one order for all with Done (sequentially consistent).
  bool busy() const { return state_.load(std::memory_order_seq_cst) == kRuns; }
  // None is added any more. Whether any is left that has not Ended, which the thread still runs.
  bool Stop();

 private:
  // What state_ is, where no operation is held back; else its ticket, doubled.
  static constexpr uint64_t kIdle = 0, kRuns = 1;
  static uint64_t Held(uint64_t ticket) { return 2 * ticket; }

  void AddForThread(Operation& operation);
  void Wake();
  // With the lock.
  void Push(Operation& operation);
  void TakeBack(uint64_t held);

  // Whoever changes it from kIdle or a ticket to kRuns runs that operation, or moves it to the queue, and sets it to kIdle again.
  std::atomic<uint64_t> state_{kIdle};
  std::atomic<Operation*> held_{nullptr};  // where state_ is its ticket
  std::atomic<uint64_t> runs_{0};          // the ticket that began last
  std::atomic<uint64_t> ended_{0};         // the ticket that ended last
  std::atomic<size_t> queued_{0};          // grows in Add and TakeBack alone
  std::mutex mutex_;
  std::condition_variable wake_;
  std::array<Operation*, kMost> queue_ = {};  // oldest at first_
  size_t first_ = 0;
  bool stop_ = false;
};

inline void OperationQueue::Add(Operation& operation) {
  // Idle: none is held back, so the queue only shrinks from here on. Once more: whoever took its last one runs it by then.
  const auto idle = [this] { return state_.load(std::memory_order_acquire) == kIdle; };
  if (!operation.wait_at_once || !idle() || queued_.load(std::memory_order_acquire) != 0 || !idle()) {
    return AddForThread(operation);
  }
  held_.store(&operation, std::memory_order_relaxed);
  state_.store(Held(operation.ticket), std::memory_order_release);
}

inline Operation* OperationQueue::Claim(uint64_t ticket) {
  uint64_t held = Held(ticket);
  if (state_.load(std::memory_order_acquire) != held) return nullptr;
  Operation* const operation = held_.load(std::memory_order_relaxed);
  if (!state_.compare_exchange_strong(held, kRuns)) return nullptr;
  runs_.store(ticket, std::memory_order_relaxed);
  return operation;
}

// What was added meanwhile found somebody running, and waits for a call: it was queued before it looked, or is seen here.
inline void OperationQueue::Done() {
  state_.store(kIdle, std::memory_order_seq_cst);
  if (queued_.load(std::memory_order_seq_cst) != 0) Wake();
}

}  // namespace zeroshard::comm
