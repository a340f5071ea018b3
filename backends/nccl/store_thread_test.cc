#include "zeroshard/backends/nccl/store_thread.h"

#include <atomic>
#include <future>
#include <thread>

#include "gtest/gtest.h"

namespace zeroshard::backends {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

TEST(StoreThread, LooksWhileNothingIsAsked) {
  std::atomic<int> looks{0};
  StoreThread store([&] { ++looks; });
  while (looks < 2) std::this_thread::yield();
  bool done = false;
  EXPECT_TRUE(store.Do([&] { done = true; }, kLong));
  EXPECT_TRUE(done);
  for (const int before = looks; looks == before;) std::this_thread::yield();
}

TEST(StoreThread, IsNotWaitedForWhereTheStoreDoesNotAnswer) {
  std::promise<void> answer;
  const std::shared_future<void> answered = answer.get_future().share();
  std::atomic<bool> looking{false}, first{false}, second{false};
  {
    StoreThread store([&] {
      looking = true;
      answered.wait();
    });
    while (!looking) std::this_thread::yield();
    EXPECT_FALSE(store.Do([&] { first = true; }, absl::Milliseconds(1)));
    EXPECT_FALSE(store.Do([&] { second = true; }, absl::Milliseconds(1)));
    answer.set_value();
    while (!second) std::this_thread::yield();
    EXPECT_TRUE(store.Do([] {}, kLong));
  }
  EXPECT_FALSE(first) << "its place was taken before it had begun";
}

TEST(StoreThread, SaysOfNothingElseThatItIsDone) {
  std::promise<void> begun, answer;
  std::atomic<bool> second{false};
  StoreThread store([] {});
  std::thread stuck([&] {
    EXPECT_FALSE(store.Do(
        [&] {
          begun.set_value();
          answer.get_future().wait();
        },
        absl::Milliseconds(1)));
  });
  begun.get_future().wait();
  stuck.join();
  std::thread after([&] { answer.set_value(); });
  EXPECT_TRUE(store.Do([&] { second = true; }, kLong));
  EXPECT_TRUE(second);
  after.join();
}

}  // namespace
}  // namespace zeroshard::backends
