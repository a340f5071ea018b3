// The engine on device/late, or on device/cuda over the doubles: streams that run as late as they may, memory that the host cannot touch,
// and an end of the test at any two unordered accesses. And each wait left out in turn: the test ends there, or it was no wait worth
// having.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/left_out_waits.h"
#include "zeroshard/zero/testing/toy_options.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using device::LateOptions;
using device::LateOrder;
using testing::EqualUnits;
using testing::ExpectReference;
using testing::OddUnits;

EngineOptions Options(int stage, Partition partition) {
  EngineOptions options = testing::ToyOptions(stage, partition);
  options.reduce_bucket_size = 500;
  options.clip = 1;
  options.accumulation = 2;
  return options;
}

testing::RankOptions LateRanks(const LateOptions& late, int world_size) {
  return {.world_size = world_size, .make_device = [late] { return device::MakeOrderedDevice(late); }};
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

TEST_P(EngineOnLateDevice, GivesTheSameBitsInTwoByteDTypes) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      EngineOptions options = Options(stage, partition);
      options.dtype = partition == Partition::kFlat ? device::DType::kFloat16 : device::DType::kBfloat16;
      options.optimizer.loss_scale = {.kind = device::LossScaleKind::kDynamic, .initial_power = 4};
      options.accumulation = 1 + stage % 2;
      ExpectReference(OddUnits(), options, LateRanks({.order = GetParam(), .seed = static_cast<uint32_t>(stage + 7)}, 2),
                      {.steps = 2});
      options.communication_dtype = device::DType::kFloat32;
      options.prescale_gradients = true;
      ExpectReference(OddUnits(), options, LateRanks({.order = GetParam(), .seed = static_cast<uint32_t>(stage + 8)}, 2),
                      {.steps = 2});
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

TEST_P(EngineOnLateDevice, GivesTheSameBitsHoweverUnitsAreGathered) {
  for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
    for (int i = 0; i < 4; ++i) {
      EngineOptions options = Options(3, partition);
      options.prefetch_bucket_size = i == 1 ? 1'000'000 : 2000;
      options.persistence_threshold = i == 0 ? 0 : 71;
      options.max_reuse_distance = i == 2 ? 3000 : 0;
      options.max_live_parameters = i == 3 ? 2048 : 0;
      ExpectReference(OddUnits(), options, LateRanks({.order = GetParam(), .seed = static_cast<uint32_t>(i + 1)}, 2),
                      {.steps = 2});
    }
  }
}

// Nothing stands between a step, which begins to gather what the optimizer wrote, and a question for a parameter.
TEST_P(EngineOnLateDevice, GivesParametersThatAreBeingGathered) {
  const std::vector<model::UnitSpec> units = EqualUnits(3, 700);
  for (int stage = 1; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      for (bool all_gather : {true, false}) {
        EngineOptions options = Options(stage, partition);
        options.allgather_partitions = all_gather;
        options.persistence_threshold = stage == 3 ? 1000 : 0;
        options.accumulation = 1;
        testing::RunOnRanks(LateRanks({.order = GetParam()}, 2), [&](comm::Communicator& communicator) {
          const auto run = [&]() -> absl::Status {
            ZS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(communicator, units, options));
            ZS_RETURN_IF_ERROR(testing::WriteInitial(*engine, units));
            ZS_ASSIGN_OR_RETURN(const device::Buffer loss,
                                communicator.device().Allocate(8, device::Use::kActivations, "loss"));
            ZS_RETURN_IF_ERROR(testing::RunMicroBatch(*engine, testing::ToyModel(units), {0, 1, 2}, {communicator.rank()},
                                                      loss.array(device::DType::kFloat64)));
            ZS_RETURN_IF_ERROR(engine->Step());
            for (const model::UnitSpec& unit : units) {
              std::vector<float> at_once(700), later(700);
              ZS_RETURN_IF_ERROR(engine->ReadParameter(unit.parameters[0].name, at_once));
              ZS_RETURN_IF_ERROR(engine->Barrier("all is gathered"));
              ZS_RETURN_IF_ERROR(engine->ReadParameter(unit.parameters[0].name, later));
              EXPECT_EQ(at_once, later);
              EXPECT_NE(at_once[0], testing::Initial(unit.parameters[0], 0));
            }
            return absl::OkStatus();
          };
          EXPECT_EQ(run(), absl::OkStatus());
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, EngineOnLateDevice,
                         ::testing::Values(LateOrder::kAtOnce, LateOrder::kLazy, LateOrder::kOneFirst, LateOrder::kRandom));

// Stage 3 has more waits than it needs: a gather and a reduction are waited for one after the other, and the communicator runs them in
// order. So its gathers are looked at by themselves, below.
TEST(EngineWithoutAWait, IsCaughtInTraining) {
  for (int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    EngineOptions options = Options(stage, Partition::kFlat);
    options.optimizer.groups = {{}};
    testing::ExpectEachWaitIsMissed({}, [&](comm::Communicator& communicator) {
      return testing::Train(communicator, EqualUnits(3, 500), options, {.steps = 2}).status();
    });
  }
}

TEST(EngineWithoutAWait, IsCaughtInForwardPassesOfStageThree) {
  const std::vector<model::UnitSpec> units = EqualUnits(4, 500);
  EngineOptions options = Options(3, Partition::kFlat);
  options.optimizer.groups = {{}};
  testing::ExpectEachWaitIsMissed({}, [&](comm::Communicator& communicator) -> absl::Status {
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
