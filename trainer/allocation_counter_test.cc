#include "zeroshard/trainer/allocation_counter.h"

#include <cstdlib>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/device/our_thread.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::trainer {
namespace {

int me, other;

// Kept out of the optimizer's sight: it may leave out a pair of new and delete.
void* volatile kept;
void AllocateOnce() {
  kept = std::malloc(100);
  std::free(kept);
}

class AllocationCounterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CountingAllocations()) GTEST_SKIP() << "sanitizers bring a malloc of their own";
    device::OurThread::Begin(&me);
  }
  void TearDown() override { device::OurThread::Begin(nullptr); }
};

TEST_F(AllocationCounterTest, CountsEveryWayToAllocate) {
  const AllocationCounts before = AllocationsOf(&me);
  AllocateOnce();
  kept = std::calloc(1, 8);
  kept = std::realloc(kept, 4096);
  std::free(kept);
  kept = std::aligned_alloc(64, 64);
  std::free(kept);
  void* memory = nullptr;
  ASSERT_EQ(posix_memalign(&memory, 64, 64), 0);
  std::free(memory);
  kept = ::operator new(16);
  ::operator delete(kept);
  const AllocationCounts after = AllocationsOf(&me);
  EXPECT_EQ(after.ours - before.ours, 6);
  EXPECT_EQ(after.vendor - before.vendor, 0);
}

TEST_F(AllocationCounterTest, VendorScopeAndUnmarkedThreadsAreTheVendors) {
  const AllocationCounts before = AllocationsOf(&me);
  {
    device::VendorScope scope;
    AllocateOnce();
  }
  AllocationCounts after = AllocationsOf(&me);
  EXPECT_EQ(after.ours, before.ours);
  EXPECT_EQ(after.vendor - before.vendor, 1);

  int64_t ours_in_thread = -1;
  std::thread unmarked([&] {
    const int64_t start = AllocationsOf(&me).vendor;
    AllocateOnce();
    ours_in_thread = AllocationsOf(&me).vendor - start;
  });
  unmarked.join();
  EXPECT_EQ(ours_in_thread, 1);
}

TEST_F(AllocationCounterTest, RanksOfOneProcessAreCountedApart) {
  const AllocationCounts mine = AllocationsOf(&me);
  int64_t others = -1;
  std::thread rank([&] {
    device::OurThread::Begin(&other);
    const int64_t start = AllocationsOf(&other).ours;
    AllocateOnce();
    others = AllocationsOf(&other).ours - start;
  });
  const int64_t starting_the_thread = AllocationsOf(&me).ours - mine.ours;
  rank.join();
  EXPECT_EQ(others, 1);
  EXPECT_EQ(AllocationsOf(&me).ours - mine.ours, starting_the_thread);
}

TEST_F(AllocationCounterTest, LiveBytesSeeWhatIsKept) {
  const int64_t before = LiveHeapBytes();
  auto large = std::make_unique<char[]>(10 << 20);
  EXPECT_GE(LiveHeapBytes() - before, 10 << 20);
}

}  // namespace
}  // namespace zeroshard::trainer
