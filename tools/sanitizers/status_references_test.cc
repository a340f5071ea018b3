#include <atomic>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace zeroshard {
namespace {

// Nothing but the status' own count orders the two threads: under --config=tsan this is a report where the count is not seen.
TEST(StatusReferences, OrderWhoeverDropsTheLastCopyAfterTheOthers) {
  auto first =
      std::make_unique<absl::Status>(absl::InternalError("an error that two ranks hold, too long to be kept in the status"));
  auto second = std::make_unique<absl::Status>(*first);
  std::atomic<bool> dropped = false;
  std::thread other([&] {
    const absl::Status copy = *second;
    EXPECT_FALSE(copy.ok());
    second.reset();
    dropped.store(true, std::memory_order_relaxed);
  });
  std::thread last([&] {
    while (!dropped.load(std::memory_order_relaxed)) std::this_thread::yield();
    first.reset();
  });
  other.join();
  last.join();
}

}  // namespace
}  // namespace zeroshard
