#include "zeroshard/comm/operation_queue.h"

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

Operation Numbered(uint64_t ticket, bool wait_at_once = false) {
  Operation operation;
  operation.ticket = ticket;
  operation.wait_at_once = wait_at_once;
  return operation;
}

TEST(OperationQueue, HoldsBackTheOnlyOperationForItsCaller) {
  OperationQueue queue;
  Operation operation = Numbered(7, /*wait_at_once=*/true);
  queue.Add(operation);
  EXPECT_EQ(queue.Claim(6), nullptr);
  EXPECT_FALSE(queue.busy());
  EXPECT_EQ(queue.Claim(7), &operation);
  EXPECT_TRUE(queue.busy());
  EXPECT_EQ(queue.Claim(7), nullptr);
  queue.Done();
  EXPECT_FALSE(queue.busy());
  EXPECT_FALSE(queue.Stop());
  EXPECT_EQ(queue.Next(), nullptr);
}

TEST(OperationQueue, HandsOverWhatWasHeldBackOnceAnotherComes) {
  OperationQueue queue;
  Operation first = Numbered(1, /*wait_at_once=*/true);
  Operation second = Numbered(2, /*wait_at_once=*/true);
  queue.Add(first);
  queue.Add(second);
  EXPECT_EQ(queue.Claim(1), nullptr);
  EXPECT_EQ(queue.Claim(2), nullptr);
  for (Operation* expected : {&first, &second}) {
    EXPECT_EQ(queue.Next(), expected);
    queue.Done();
  }
}

TEST(OperationQueue, HandsOverWhatWasHeldBackWhenToldTo) {
  OperationQueue queue;
  Operation operation = Numbered(3, /*wait_at_once=*/true);
  queue.Add(operation);
  queue.HandOver(2);
  queue.HandOver(3);
  EXPECT_EQ(queue.Claim(3), nullptr);
  EXPECT_EQ(queue.Next(), &operation);
}

TEST(OperationQueue, HoldsNothingBackWhileOneRuns) {
  OperationQueue queue;
  Operation first = Numbered(1, /*wait_at_once=*/true);
  Operation second = Numbered(2, /*wait_at_once=*/true);
  queue.Add(first);
  ASSERT_EQ(queue.Claim(1), &first);
  queue.Add(second);
  EXPECT_EQ(queue.Claim(2), nullptr);
  queue.Done();
  EXPECT_EQ(queue.Next(), &second);
}

TEST(OperationQueue, StopLeavesWhatWasHeldBackToTheThread) {
  OperationQueue queue;
  Operation operation = Numbered(4, /*wait_at_once=*/true);
  queue.Add(operation);
  EXPECT_TRUE(queue.Stop());
  EXPECT_EQ(queue.Claim(4), nullptr);
  EXPECT_EQ(queue.Next(), &operation);
  queue.Done();
  EXPECT_EQ(queue.Next(), nullptr);
}

TEST(OperationQueue, StopLeavesNothingWhereTheLastHasEnded) {
  for (const bool ended : {true, false}) {
    OperationQueue queue;
    Operation operation = Numbered(1);
    queue.Add(operation);
    ASSERT_EQ(queue.Next(), &operation);
    if (ended) queue.Ended();
    EXPECT_EQ(queue.Stop(), !ended) << "before Done, which whoever waits for its end does not wait for";
    queue.Done();
    EXPECT_EQ(queue.Next(), nullptr);
  }
}

// A caller that claims, hands over, or leaves to the thread, in turns that the thread does not know of.
TEST(OperationQueue, RunsEachOnceInOrderWhoeverRunsIt) {
  constexpr uint64_t kOperations = 30'000;
  OperationQueue queue;
  std::vector<Operation> operations;
  for (uint64_t t = 1; t <= kOperations; ++t) operations.push_back(Numbered(t, t % 3 != 0));
  uint64_t last = 0;  // written by whoever runs one
  std::atomic<uint64_t> done{0};
  const auto run = [&](const Operation& operation) {
    EXPECT_EQ(operation.ticket, last + 1);
    last = operation.ticket;
    done.store(operation.ticket, std::memory_order_release);
    queue.Done();
  };
  std::thread thread([&] {
    while (const Operation* operation = queue.Next()) run(*operation);
  });
  std::atomic<uint64_t> added{0};
  std::thread other([&] {
    for (uint64_t seen = 0; seen < kOperations;) {
      seen = added.load(std::memory_order_acquire);
      if (seen % 5 == 0) queue.HandOver(seen);
    }
  });
  for (Operation& operation : operations) {
    while (operation.ticket - done.load(std::memory_order_acquire) > OperationQueue::kMost) std::this_thread::yield();
    queue.Add(operation);
    added.store(operation.ticket, std::memory_order_release);
    if (operation.ticket % 7 == 0) continue;
    if (Operation* const mine = queue.Claim(operation.ticket)) run(*mine);
    while (operation.ticket % 2 == 0 && done.load(std::memory_order_acquire) < operation.ticket) std::this_thread::yield();
  }
  queue.HandOver(kOperations);
  queue.Stop();
  thread.join();
  other.join();
  EXPECT_EQ(last, kOperations);
}

}  // namespace
}  // namespace zeroshard::comm
