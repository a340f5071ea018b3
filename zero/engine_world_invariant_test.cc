// The same micro-batches on 1, 2, 4 and 8 ranks: the same bits, in every stage and partition, in fp32 and in bf16.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_options.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using device::DType;
using device::Use;
using testing::EqualUnits;
using testing::ExpectReference;
using testing::ForEachStageAndPartition;
using testing::OddUnits;
using testing::RunOnRanks;
using testing::TrainingRun;

EngineOptions Options(int stage, Partition partition, int accumulation, DType dtype = DType::kFloat32) {
  EngineOptions options = testing::ToyOptions(stage, partition);
  options.accumulation = accumulation;
  options.dtype = dtype;
  options.world_invariant = true;
  return options;
}

// Micro-batch a of rank r of N is sample a N + r of the step.
absl::StatusOr<TrainingRun> TrainOnNumberedSamples(comm::Communicator& communicator, const EngineOptions& options) {
  const std::vector<model::UnitSpec> units = OddUnits();
  const testing::ToyModel model(units);
  ZS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(communicator, units, options));
  ZS_RETURN_IF_ERROR(testing::WriteInitial(*engine, units));
  ZS_ASSIGN_OR_RETURN(const device::Buffer loss, communicator.device().Allocate(8, Use::kActivations, "loss"));
  TrainingRun run;
  for (int step = 0; step < 3; ++step) {
    for (int a = 0; a < options.accumulation; ++a) {
      const int number = a * communicator.world_size() + communicator.rank();
      ZS_RETURN_IF_ERROR(testing::RunMicroBatch(*engine, model, {0, 1, 2, 3, 4, 5}, {.rank = number, .step = step},
                                                loss.array(DType::kFloat64)));
    }
    ZS_RETURN_IF_ERROR(engine->Step());
    ZS_ASSIGN_OR_RETURN(const StepResult result, engine->Result());
    run.results.push_back(result);
  }
  ZS_RETURN_IF_ERROR(testing::ReadAll(*engine, units, run));
  return run;
}

// What each rank comes to, [rank].
std::vector<TrainingRun> RunsOf(int world, const EngineOptions& options) {
  std::vector<TrainingRun> runs(world);
  RunOnRanks({.world_size = world}, [&](comm::Communicator& communicator) {
    absl::StatusOr<TrainingRun> run = TrainOnNumberedSamples(communicator, options);
    ASSERT_TRUE(run.ok()) << run.status();
    runs[communicator.rank()] = *std::move(run);
  });
  return runs;
}

void ExpectSameBits(const TrainingRun& run, const TrainingRun& expected) {
  ASSERT_EQ(run.results.size(), expected.results.size());
  for (size_t step = 0; step < expected.results.size(); ++step) {
    EXPECT_EQ(run.results[step].gradient_norm, expected.results[step].gradient_norm);
    EXPECT_LT(run.results[step].clip_factor, 1);
  }
  EXPECT_EQ(run.weights, expected.weights);
  EXPECT_EQ(run.gradients, expected.gradients);
  EXPECT_EQ(run.moments[0], expected.moments[0]);
  EXPECT_EQ(run.moments[1], expected.moments[1]);
}

TEST(WorldInvariant, EightMicroBatchesGiveTheSameBitsOnOneTwoFourAndEightRanks) {
  for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    std::optional<TrainingRun> first;
    ForEachStageAndPartition(/*least_stage=*/0, [&](int stage, Partition partition) {
      for (int world : {1, 2, 4, 8}) {
        EngineOptions options = Options(stage, partition, 8 / world, dtype);
        options.overlap = world != 4;
        SCOPED_TRACE(testing::Describe(options, world));
        const std::vector<TrainingRun> runs = RunsOf(world, options);
        if (!first.has_value()) first = runs[0];
        ExpectSameBits(runs[0], *first);
      }
    });
  }
}

TEST(WorldInvariant, EightMicroBatchesGiveTheSameBitsUnderOffload) {
  const std::string folder = ::testing::TempDir();
  for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    const TrainingRun resident = RunsOf(1, Options(0, Partition::kFlat, 8, dtype))[0];
    ForEachStageAndPartition(/*least_stage=*/1, [&](int stage, Partition partition) {
      for (OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
        for (int world : {1, 2, 4, 8}) {
          EngineOptions options = Options(stage, partition, 8 / world, dtype);
          options.sub_group_size = 700;
          options.offload_optimizer = {.target = target, .folder = folder};
          const bool parameters = stage == 3 && world != 2;
          if (parameters) options.offload_parameters = options.offload_optimizer;
          if (!parameters && world == 4) options.offload_ratio = 0.4;
          SCOPED_TRACE(testing::Describe(options, world));
          ExpectSameBits(RunsOf(world, options)[0], resident);
        }
      }
    });
  }
}

TEST(WorldInvariant, IsWhatPlainLoopsGiveAtTheCostThatIsPredicted) {
  ForEachStageAndPartition(/*least_stage=*/0, [](int stage, Partition partition) {
    for (const auto& [world, accumulation] : {std::pair(1, 4), {2, 1}, {2, 2}, {2, 8}, {3, 1}, {4, 2}}) {
      for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        EngineOptions options = Options(stage, partition, accumulation, dtype);
        options.reduce_scatter = accumulation != 2;
        options.overlap = accumulation != 4;
        SCOPED_TRACE(testing::Describe(options, world));
        const Layout layout = *Layout::Create(OddUnits(), LayoutOptionsOf(options, world));
        const auto runs = ExpectReference(OddUnits(), options, {.world_size = world}, {.steps = 2});
        for (int r = 0; r < world; ++r) {
          for (int64_t sent : runs[r].data_bytes) EXPECT_EQ(sent, PredictDataBytes(layout, options, r)) << "rank " << r;
        }
        RunOnRanks({.world_size = world}, [&](comm::Communicator& communicator) {
          const device::MemoryLedger& ledger = communicator.device().ledger();
          ASSERT_TRUE(testing::Train(communicator, OddUnits(), options, {.steps = 1}).ok());
          for (Use use : {Use::kGradients, Use::kMoments, Use::kCommunication}) {
            EXPECT_EQ(ledger.peak(use), ledger.predicted(use)) << device::Name(use);
          }
        });
      }
    }
  });
}

// Ψ = 2,560 on two ranks, eight micro-batches: three buffers of fp32.
TEST(WorldInvariant, CostsTheLogarithmOfAccumulationInGradientShards) {
  const auto gradients = [](int stage, int accumulation, DType dtype) {
    const EngineOptions options = Options(stage, Partition::kFlat, accumulation, dtype);
    return PredictMemory(*Layout::Create(EqualUnits(4, 640), LayoutOptionsOf(options, 2)), options, 0).gradients;
  };
  const int64_t psi = 2560;
  EXPECT_EQ(gradients(0, 8, DType::kFloat32), 4 * psi + 3 * 4 * psi);
  EXPECT_EQ(gradients(1, 8, DType::kFloat32), 4 * psi + 3 * 4 * psi / 2);
  EXPECT_EQ(gradients(2, 8, DType::kFloat32), 3 * 4 * psi / 2);
  EXPECT_EQ(gradients(3, 1, DType::kFloat32), 4 * psi / 2);
  EXPECT_EQ(gradients(1, 8, DType::kBfloat16), 2 * psi + 3 * 4 * psi / 2);
}

TEST(WorldInvariant, MicroBatchesThatLeaveUnitsOutOrAreTooFewStillAddUp) {
  const auto schedule = [](int) { return testing::Schedule{{0, 1, 2}, {0, 2}, {2, 1, 0}, {0, 1, 2}, {2}, {0, 2}, {1, 2}}; };
  ForEachStageAndPartition(/*least_stage=*/0, [&](int stage, Partition partition) {
    std::vector<model::UnitSpec> units = EqualUnits(3, 150);
    for (int world : {1, 2}) {
      ExpectReference(units, Options(stage, partition, 8), {.world_size = world}, {.steps = 3, .schedule = schedule});
    }
    units[1].uses = 2;
    ExpectReference(units, Options(stage, partition, 4), {.world_size = 2},
                    {.steps = 2, .schedule = [](int) {
                       return testing::Schedule{{0, 1, 2, 1}, {2, 0}, {1, 2, 1, 0}};
                     }});
  });
}

TEST(WorldInvariant, OffloadedStateChangesNoBitAndCostsWhatIsPredicted) {
  for (int stage = 1; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      for (const auto& [accumulation, dtype] :
           {std::pair(4, DType::kFloat32), {4, DType::kBfloat16}, {1, DType::kFloat32}}) {
        EngineOptions options = Options(stage, partition, accumulation, dtype);
        options.offload_optimizer.target = OffloadTarget::kHost;
        options.offload_ratio = accumulation == 1 ? 0.5 : 1;
        options.sub_group_size = 700;
        if (stage == 3 && accumulation == 4) options.offload_parameters.target = OffloadTarget::kHost;
        ExpectReference(OddUnits(), options, {.world_size = 2}, {.steps = 3});
        RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
          device::Device& device = communicator.device();
          auto engine = Engine::Create(communicator, OddUnits(), options);
          ASSERT_TRUE(engine.ok()) << engine.status();
          const MemoryBytes on_device = PredictMemory((*engine)->layout(), options, communicator.rank());
          const MemoryBytes on_host = PredictHostMemory((*engine)->layout(), options, communicator.rank());
          EXPECT_EQ(device.ledger().now(Use::kGradients), on_device.gradients);
          EXPECT_EQ(device.ledger().now(Use::kMoments), on_device.moments);
          EXPECT_EQ(device.host().ledger().now(Use::kGradients), on_host.gradients);
          EXPECT_EQ(device.host().ledger().now(Use::kMoments), on_host.moments);
          EXPECT_EQ(device.host().ledger().now(Use::kCommunication), on_host.communication);
        });
      }
    }
  }
}

TEST(WorldInvariant, IsRefusedWithTheReasonWhereTreesDoNotNest) {
  const auto refused = [](int world, int accumulation, const std::string& part) {
    RunOnRanks({.world_size = world}, [&](comm::Communicator& communicator) {
      const absl::Status status =
          Engine::Create(communicator, EqualUnits(2, 100), Options(2, Partition::kFlat, accumulation)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_NE(status.message().find(part), std::string::npos) << status;
    });
  };
  refused(3, 2, "world_invariant on 3 ranks with accumulation 2");
  refused(6, 4, "world_invariant on 6 ranks with accumulation 4");
  refused(2, 3, "accumulation is 3 with world_invariant");
  RunOnRanks({.world_size = 3}, [](comm::Communicator& communicator) {
    EXPECT_TRUE(Engine::Create(communicator, EqualUnits(2, 100), Options(2, Partition::kFlat, 1)).ok());
  });
}

}  // namespace
}  // namespace zeroshard::zero
