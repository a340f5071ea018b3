// The engine on device/late: streams that run as late as they may, memory that the host cannot touch, and an end of the test at any
// two unordered accesses. And each wait left out in turn: the test ends there, or it was no wait worth having.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "zeroshard/device/late/end_test.h"
#include "zeroshard/device/late/late_device.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using device::LateOptions;
using device::LateOrder;
using testing::EqualUnits;
using testing::ExpectReference;
using testing::OddUnits;

EngineOptions Options(int stage, Partition partition) {
  EngineOptions options;
  options.stage = stage;
  options.partition = partition;
  options.reduce_bucket_size = 500;
  options.clip = 1;
  options.accumulation = 2;
  options.optimizer.groups = {{.weight_decay = 0.1}, {}};
  return options;
}

testing::RankOptions LateRanks(const LateOptions& late, int world_size) {
  return {.world_size = world_size, .make_device = [late] { return device::MakeLateDevice(late); }};
}

class EngineOnLateDevice : public ::testing::TestWithParam<LateOrder> {};

TEST_P(EngineOnLateDevice, GivesTheSameBitsWithoutARace) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      for (bool overlap : {true, false}) {
        EngineOptions options = Options(stage, partition);
        options.overlap = overlap;
        ExpectReference(OddUnits(), options, LateRanks({.order = GetParam(), .seed = static_cast<uint32_t>(stage + 1)}, 2),
                        {.steps = 2});
      }
    }
  }
}

TEST_P(EngineOnLateDevice, GivesTheSameBitsWithEveryOptionOfStageThree) {
  for (bool keep : {false, true}) {
    for (bool reduce_scatter : {true, false}) {
      EngineOptions options = Options(3, Partition::kFlat);
      options.keep_parameters = keep;
      options.reduce_scatter = reduce_scatter;
      options.prefetch = 2;
      ExpectReference(OddUnits(), options, LateRanks({.order = GetParam(), .seed = 5}, 3), {.steps = 2});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, EngineOnLateDevice,
                         ::testing::Values(LateOrder::kAtOnce, LateOrder::kLazy, LateOrder::kOneFirst, LateOrder::kRandom));

using Training = std::function<absl::Status(comm::Communicator& communicator)>;

// Runs it on two ranks, the first one's device without a wait, if one is given. Gives that device's waits.
std::vector<device::WaitPoint> RunWithout(const Training& training, std::optional<device::WaitPoint> left_out) {
  bool first = true;
  const auto make_device = [&] {
    std::unique_ptr<device::LateDevice> device = device::MakeLateDevice();
    if (first && left_out) device->LeaveOutWait(*left_out);
    first = false;
    return device;
  };
  std::vector<device::WaitPoint> waits;
  testing::RunOnRanks({.world_size = 2, .make_device = make_device}, [&](comm::Communicator& communicator) {
    const absl::Status status = training(communicator);
    EXPECT_TRUE(status.ok()) << status;
    if (communicator.rank() == 0) waits = static_cast<device::LateDevice&>(communicator.device()).waits();
  });
  return waits;
}

bool IsCaughtWithout(const Training& training, const device::WaitPoint& point) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
    RunWithout(training, point);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == device::kLateExitCode;
}

// A wait tells a stream nothing new where the host happened to learn it earlier; so each gets several runs.
void ExpectEachWaitIsMissed(const Training& training) {
  constexpr int kRuns = 10;
  const std::vector<device::WaitPoint> waits = RunWithout(training, std::nullopt);
  EXPECT_GT(waits.size(), 5u);
  for (const device::WaitPoint& point : waits) {
    bool caught = false;
    for (int i = 0; i < kRuns && !caught; ++i) caught = IsCaughtWithout(training, point);
    EXPECT_TRUE(caught) << "stream " << point.stream << ", wait " << point.index << " of " << waits.size();
  }
}

// Stage 3 has more waits than it needs: a gather and a reduction are waited for one after the other, and the communicator runs them in
// order. So its gathers are looked at by themselves, below.
TEST(EngineWithoutAWait, IsCaughtInTraining) {
  for (int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    EngineOptions options = Options(stage, Partition::kFlat);
    options.optimizer.groups = {{}};
    ExpectEachWaitIsMissed([&](comm::Communicator& communicator) {
      return testing::Train(communicator, EqualUnits(3, 500), options, {.steps = 2}).status();
    });
  }
}

TEST(EngineWithoutAWait, IsCaughtInForwardPassesOfStageThree) {
  const std::vector<model::UnitSpec> units = EqualUnits(4, 500);
  EngineOptions options = Options(3, Partition::kFlat);
  options.optimizer.groups = {{}};
  ExpectEachWaitIsMissed([&](comm::Communicator& communicator) -> absl::Status {
    ZS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(communicator, units, options));
    ZS_RETURN_IF_ERROR(testing::WriteInitial(*engine, units));
    ZS_ASSIGN_OR_RETURN(const device::Buffer loss, communicator.device().Allocate(8, device::Use::kActivations, "loss"));
    const testing::ToyModel model(units);
    for (int pass = 0; pass < 2; ++pass) {
      for (int u = 0; u < 4; ++u) {
        ZS_RETURN_IF_ERROR(engine->Unshard(u, Pass::kForward));
        ZS_ASSIGN_OR_RETURN(const auto parameters, engine->parameters(u));
        model.Forward(engine->compute(), u, parameters, {}, loss.array(device::DType::kFloat64));
        ZS_RETURN_IF_ERROR(engine->Reshard(u));
      }
    }
    engine->compute().Synchronize();
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace zeroshard::zero
