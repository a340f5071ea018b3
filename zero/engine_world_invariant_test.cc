// The same micro-batches on 1, 2, 4 and 8 ranks: the same bits, in every stage and partition, in fp32 and in bf16.

#include <gtest/gtest.h>

#include <string>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using device::DType;
using device::Use;
using testing::EqualUnits;
using testing::ExpectReference;
using testing::OddUnits;
using testing::RunOnRanks;
using testing::TrainingRun;

EngineOptions Options(int stage, Partition partition, int accumulation, DType dtype = DType::kFloat32) {
  EngineOptions options;
  options.stage = stage;
  options.partition = partition;
  options.accumulation = accumulation;
  options.dtype = dtype;
  options.world_invariant = true;
  options.reduce_bucket_size = 700;
  options.clip = 0.5;
  options.optimizer.groups = {{.weight_decay = 0.1}, {}};
  return options;
}

void ForEachStageAndPartition(const std::function<void(int stage, Partition partition)>& check) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) check(stage, partition);
  }
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

TEST(WorldInvariant, EightMicroBatchesGiveTheSameBitsOnOneTwoFourAndEightRanks) {
  for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    std::vector<TrainingRun> first;
    ForEachStageAndPartition([&](int stage, Partition partition) {
      for (int world : {1, 2, 4, 8}) {
        EngineOptions options = Options(stage, partition, 8 / world, dtype);
        options.overlap = world != 4;
        SCOPED_TRACE(testing::Describe(options, world));
        std::vector<TrainingRun> runs(world);
        RunOnRanks({.world_size = world}, [&](comm::Communicator& communicator) {
          absl::StatusOr<TrainingRun> run = TrainOnNumberedSamples(communicator, options);
          ASSERT_TRUE(run.ok()) << run.status();
          runs[communicator.rank()] = *std::move(run);
        });
        if (first.empty()) first = runs;
        for (size_t step = 0; step < first[0].results.size(); ++step) {
          EXPECT_EQ(runs[0].results[step].gradient_norm, first[0].results[step].gradient_norm);
        }
        EXPECT_EQ(runs[0].weights, first[0].weights);
        EXPECT_EQ(runs[0].gradients, first[0].gradients);
        EXPECT_EQ(runs[0].moments[1], first[0].moments[1]);
      }
    });
  }
}

TEST(WorldInvariant, IsWhatPlainLoopsGiveAtTheCostThatIsPredicted) {
  ForEachStageAndPartition([](int stage, Partition partition) {
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
  ForEachStageAndPartition([&](int stage, Partition partition) {
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
