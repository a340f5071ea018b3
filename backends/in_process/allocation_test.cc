// From the third round on collectives allocate nothing, on any thread.

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  g_allocations.fetch_add(1);
  if (void* memory = std::malloc(bytes)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace zeroshard::backends {
namespace {

using comm::ReduceOp;
using comm::Segment;
using device::Array;
using device::DType;

// One of everything, in flight together and waited for at once.
void Round(comm::Communicator& rank, const Array& x, const Array& y) {
  const int64_t part = 5000;
  const Segment segments[] = {{x.Slice(0, 30), y.Slice(0, 10), 10}, {x.Slice(100, 3000), y.Slice(100, 1000), 1000}};
  comm::Work scattered = rank.ReduceScatter(segments, ReduceOp::kAverage, {.label = "unit"});
  comm::Work gathered = rank.AllGather(y.Slice(rank.rank() * part, part), y.Slice(0, 3 * part));
  comm::Work summed = rank.AllReduce(x.Slice(0, part), x.Slice(0, part), ReduceOp::kSum, {.after = {&gathered.event()}});
  rank.Broadcast(x, x, 1).Wait().IgnoreError();
  rank.Reduce(x, x, ReduceOp::kMax, 2, {.wait_at_once = true}).Wait().IgnoreError();
  EXPECT_TRUE(scattered.Wait().ok() && gathered.Wait().ok() && summed.Wait().ok());
  EXPECT_TRUE(rank.Barrier({.wait_at_once = true}).Wait().ok());
}

class AllocationTest : public ::testing::TestWithParam<comm::ScheduleChoice> {};

TEST_P(AllocationTest, CollectivesAllocateNothingFromTheThirdRoundOn) {
  for (const bool mapped : {true, false}) {
    std::vector<std::unique_ptr<device::Device>> owned;
    std::vector<device::Device*> devices;
    for (int r = 0; r < 3; ++r) {
      owned.push_back(device::MakeCpuDevice());
      devices.push_back(owned.back().get());
    }
    InProcessOptions options;
    options.mapped = mapped;
    options.host.schedules = GetParam();
    auto ranks = *MakeInProcessGroup(devices, options);
    std::atomic<int64_t> counted{-1};
    std::vector<std::thread> threads;
    for (size_t r = 0; r < 3; ++r) {
      threads.emplace_back([&, r] {
        const auto x = devices[r]->Allocate(4 * 100000, device::Use::kData, "x");
        const auto y = devices[r]->Allocate(4 * 100000, device::Use::kData, "y");
        int64_t before = 0;
        for (int round = 1; round <= 20; ++round) {
          if (round == 3) before = g_allocations.load();
          Round(*ranks[r], x->array(DType::kFloat32), y->array(DType::kFloat32));
        }
        if (r == 0) counted = g_allocations.load() - before;
        EXPECT_TRUE(ranks[r]->Barrier().Wait().ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counted.load(), 0) << (mapped ? "mapped" : "messages");
  }
}

INSTANTIATE_TEST_SUITE_P(InProcess, AllocationTest,
                         ::testing::Values(comm::ScheduleChoice::kDirect, comm::ScheduleChoice::kHalving));

}  // namespace
}  // namespace zeroshard::backends
