// More ranks than cores: every schedule at every world size, and waiting that leaves the cores to others.

#include <chrono>
#include <ctime>
#include <random>
#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/comm/testing/collective_case.h"
#include "zeroshard/comm/testing/group.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

using comm::Communicator;
using comm::OpKind;
using comm::ScheduleChoice;
using comm::Work;
using comm::testing::Case;
using comm::testing::CaseOnRank;
using device::DType;

comm::testing::Group MakeGroup(int world_size, ScheduleChoice schedules) {
  comm::testing::Backend backend;
  backend.make_device = [] { return device::MakeCpuDevice(); };
  backend.make_ranks = [](const std::vector<device::Device*>& devices, const comm::HostOptions& host) {
    InProcessOptions options;
    options.host = host;
    options.mapped = devices.size() % 2 == 0;
    return *MakeInProcessGroup(devices, options);
  };
  return {backend, world_size, {.schedules = schedules, .scratch_bytes = 64 << 10}};
}

void RunRandomOperations(Communicator& rank, int windows) {
  std::mt19937_64 random(static_cast<uint64_t>(rank.world_size()));  // the same on every rank
  for (int window = 0; window < windows; ++window) {
    std::vector<std::unique_ptr<CaseOnRank>> cases;
    std::vector<Work> works;
    for (int i = 0; i < 30; ++i) {
      Case c{.kind = static_cast<OpKind>(random() % 6), .op = static_cast<comm::ReduceOp>(random() % 4), .seed = random()};
      if (random() % 3 == 0) c.in = c.out = DType::kBfloat16;
      c.counts = std::vector<int64_t>(1 + random() % 3);
      for (int64_t& count : c.counts) count = static_cast<int64_t>(random() % (random() % 20 == 0 ? 2000 : 30));
      c.gap = static_cast<int64_t>(random() % 3);
      c.in_place = random() % 2 == 0;
      c.root = static_cast<int>(random() % static_cast<uint64_t>(rank.world_size()));
      c.wait_at_once = random() % 4 == 0;
      cases.push_back(std::make_unique<CaseOnRank>(rank, c));
      works.push_back(cases.back()->Issue());
    }
    for (size_t i = 0; i < cases.size(); ++i) cases[i]->Check(works[i]);
  }
}

TEST(ManyRanks, RunRandomOperationsBackToBackByEverySchedule) {
  for (int world_size = 1; world_size <= 9; ++world_size) {
    for (const auto schedules : {ScheduleChoice::kDirect, ScheduleChoice::kHalving, ScheduleChoice::kScatter}) {
      MakeGroup(world_size, schedules).Run([](Communicator& rank) { RunRandomOperations(rank, 8); });
    }
  }
}

TEST(ManyRanks, RunBeyondTheDirectSchedules) {
  for (const int world_size : {16, 17, 33}) {
    MakeGroup(world_size, ScheduleChoice::kBySize).Run([](Communicator& rank) { RunRandomOperations(rank, 2); });
  }
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ManyRanks, WaitWithoutBurningACore) {
  auto group = MakeGroup(8, ScheduleChoice::kBySize);
  group.Run([](Communicator& rank) { EXPECT_TRUE(rank.Barrier().Wait().ok()); });
  const double before = CpuSeconds();
  group.Run([](Communicator& rank) {
    if (rank.rank() == 5) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    EXPECT_TRUE(rank.Barrier({.wait_at_once = rank.rank() % 2 == 0}).Wait().ok());
  });
  EXPECT_LT(CpuSeconds() - before, 0.1);
}

TEST(ManyRanks, EightFinishOnFewCores) {
  auto group = MakeGroup(8, ScheduleChoice::kBySize);
  const auto begin = std::chrono::steady_clock::now();
  group.Run([](Communicator& rank) {
    const auto buffer = rank.device().Allocate(1 << 20, device::Use::kData, "x");
    const device::Array x = buffer->array(DType::kFloat32);
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(rank.AllReduce(x, x, comm::ReduceOp::kMax).Wait().ok());
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace zeroshard::backends
