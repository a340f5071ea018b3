// Hybrid sharding: state is split within a group of ranks and replicated across groups. The same bits as without, at the cost that is
// predicted, to the byte.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_options.h"
#include "zeroshard/zero/testing/toy_units.h"
#include "zeroshard/zero/world_check.h"

namespace zeroshard::zero {
namespace {

using device::DType;
using device::Use;
using testing::EqualUnits;
using testing::ExpectReference;
using testing::ForEachStageAndPartition;
using ::testing::HasSubstr;
using testing::OddUnits;
using testing::RunOnRanks;
using testing::TrainingRun;

EngineOptions Options(int stage, Partition partition, int shard_size) {
  EngineOptions options = testing::ToyOptions(stage, partition);
  options.shard_size = shard_size;
  return options;
}

// Runs two steps, and holds them to the plain loops over all ranks, whose sums know no groups; and what each rank sent to the
// formulas. Gives rank 0's results.
std::vector<StepResult> ExpectAsOneGroup(const std::vector<model::UnitSpec>& units, const EngineOptions& options,
                                         int world) {
  SCOPED_TRACE("shard_size " + std::to_string(options.shard_size));
  const std::vector<TrainingRun> runs = ExpectReference(units, options, {.world_size = world}, {.steps = 2});
  const absl::StatusOr<Layout> layout = Layout::Create(units, LayoutOptionsOf(options, world));
  EXPECT_TRUE(layout.ok()) << layout.status();
  for (int rank = 0; rank < world; ++rank) {
    for (int64_t sent : runs[rank].data_bytes) {
      EXPECT_EQ(sent, PredictDataBytes(*layout, options, rank)) << testing::Describe(options, world) << ", rank " << rank;
    }
  }
  return runs[0].results;
}

struct Groups {
  int world;
  int shard;
};

class EngineHybridGroups : public ::testing::TestWithParam<Groups> {};

TEST_P(EngineHybridGroups, HaveTheBitsOfOneGroupInEveryStagePartitionAndPrecision) {
  const auto [world, shard] = GetParam();
  int turn = 0, skipped = 0;
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      for (DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
        EngineOptions options = Options(stage, partition, shard);
        options.dtype = dtype;
        options.accumulation = 1 + turn % 2;
        options.overlap = turn++ % 3 != 2;
        // Where backward leaves fp16; with accumulation stages 0 and 1 add up in fp32, and overflow nowhere.
        const bool overflows = dtype == DType::kFloat16 && turn % 2 == 0;
        if (dtype == DType::kFloat16) {
          options.optimizer.loss_scale = {.kind = device::LossScaleKind::kDynamic, .initial_power = overflows ? 24 : 8};
        }
        for (const StepResult& result : ExpectAsOneGroup(OddUnits(), options, world)) {
          EXPECT_TRUE(overflows || !result.skipped);
          skipped += result.skipped;
        }
      }
    }
  }
  EXPECT_GT(skipped, 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, EngineHybridGroups,
                         ::testing::Values(Groups{4, 2}, Groups{4, 1}, Groups{4, 4}, Groups{8, 4}, Groups{8, 2},
                                           Groups{6, 2}),
                         [](const auto& groups) {
                           return "Of" + std::to_string(groups.param.shard) + "In" + std::to_string(groups.param.world);
                         });

TEST(EngineHybrid, HasTheBitsOfOneGroupWithEveryOption) {
  const std::vector<std::function<void(EngineOptions&)>> changes = {
      [](EngineOptions& o) { o.reduce_scatter = false; },
      [](EngineOptions& o) { o.round_robin_gradients = true; },
      [](EngineOptions& o) { o.reduce_bucket_size = 1; },
      [](EngineOptions& o) { o.communication_dtype = DType::kFloat32; },
      [](EngineOptions& o) { o.gradient_dtype = DType::kFloat32; },
      [](EngineOptions& o) { o.prescale_gradients = true; },
      [](EngineOptions& o) { o.gradient_predivide_factor = 2; },
      [](EngineOptions& o) { o.allgather_bucket_size = 500; },
      [](EngineOptions& o) { o.allgather_partitions = false; },
      [](EngineOptions& o) { o.owner = Ownership::kRoundRobin; },
      [](EngineOptions& o) { o.average = false; },
      [](EngineOptions& o) { o.accumulation = 3; },
  };
  ForEachStageAndPartition(/*least_stage=*/1, [&](int stage, Partition partition) {
    for (size_t i = 0; i < changes.size(); ++i) {
      EngineOptions options = Options(stage, partition, 2);
      options.dtype = i % 2 == 0 ? DType::kBfloat16 : DType::kFloat32;
      changes[i](options);
      SCOPED_TRACE(i);
      ExpectAsOneGroup(OddUnits(), options, 4);
    }
  });
}

TEST(EngineHybrid, HasTheBitsOfOneGroupHoweverUnitsAreGathered) {
  for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
    for (int i = 0; i < 5; ++i) {
      EngineOptions options = Options(3, partition, 2);
      options.keep_parameters = i == 0;
      options.prefetch_bucket_size = i == 1 ? 2000 : 0;
      options.persistence_threshold = i == 2 ? 71 : 0;
      options.max_reuse_distance = i == 3 ? 3000 : 0;
      options.prefetch = i == 4 ? 3 : 1;
      std::vector<model::UnitSpec> units = OddUnits();
      units[1].recomputed = i == 0;
      ExpectAsOneGroup(units, options, 4);
    }
  }
}

TEST(EngineHybrid, HasTheBitsOfOneGroupUnderOffload) {
  ForEachStageAndPartition(/*least_stage=*/1, [](int stage, Partition partition) {
    EngineOptions options = Options(stage, partition, 2);
    options.dtype = stage == 2 ? DType::kBfloat16 : DType::kFloat32;
    options.accumulation = 2;
    options.sub_group_size = 700;
    options.offload_optimizer.target = OffloadTarget::kHost;
    if (stage == 3) options.offload_parameters.target = OffloadTarget::kHost;
    ExpectAsOneGroup(OddUnits(), options, 4);
    options.offload_parameters.target = OffloadTarget::kNone;
    options.offload_ratio = 0.4;
    ExpectAsOneGroup(OddUnits(), options, 4);
  });
}

TEST(EngineHybrid, FreezesAndUnfreezesOnAllRanks) {
  ForEachStageAndPartition(/*least_stage=*/1, [](int stage, Partition partition) {
    const auto freeze = [](int step) -> std::vector<std::pair<std::string, bool>> {
      if (step == 1) return {{"block.0.weight", true}};
      if (step == 2) return {{"block.0.weight", false}};
      return {};
    };
    ExpectReference(OddUnits(), Options(stage, partition, 2), {.world_size = 4}, {.steps = 3, .freeze = freeze});
  });
}

TEST(EngineHybrid, LeavesUnitsOutAndUsesThemTwice) {
  std::vector<model::UnitSpec> units = EqualUnits(3, 150);
  units[1].uses = 2;
  ForEachStageAndPartition(/*least_stage=*/1, [&](int stage, Partition partition) {
    EngineOptions options = Options(stage, partition, 2);
    options.accumulation = 2;
    ExpectReference(units, options, {.world_size = 4}, {.steps = 2, .schedule = [](int) {
                                                          return testing::Schedule{{0, 1, 2, 1}, {2, 0}};
                                                        }});
  });
}

// A world of eight ranks is a group of two and four of them, or eight micro-batches of one.
TEST(EngineHybrid, WorldInvariantRunsHaveTheBitsOfOneGroup) {
  ForEachStageAndPartition(/*least_stage=*/1, [](int stage, Partition partition) {
    for (const auto& [world, shard, accumulation] : {std::tuple(4, 2, 2), {4, 1, 4}, {8, 4, 1}}) {
      for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        EngineOptions options = Options(stage, partition, shard);
        options.world_invariant = true;
        options.accumulation = accumulation;
        options.dtype = dtype;
        ExpectAsOneGroup(OddUnits(), options, world);
      }
    }
  });
}

// ((0+1)+2) + ((3+4)+5) is not ((0+1)+(2+3)) + (4+5): each sum of six has at most five roundings of 2^-24, either way.
TEST(EngineHybrid, GroupsOfThreeAreWithinTheRoundingOfTheirSums) {
  ForEachStageAndPartition(/*least_stage=*/1, [](int stage, Partition partition) {
    for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      TrainingRun runs[2];
      for (int i = 0; i < 2; ++i) {
        EngineOptions options = Options(stage, partition, i == 0 ? 0 : 3);
        options.dtype = dtype;
        options.clip = 0;
        RunOnRanks({.world_size = 6}, [&, i](comm::Communicator& communicator) {
          absl::StatusOr<TrainingRun> run = testing::Train(communicator, OddUnits(), options, {.steps = 1});
          ASSERT_TRUE(run.ok()) << run.status();
          const Layout layout = *Layout::Create(OddUnits(), LayoutOptionsOf(options, 6));
          EXPECT_EQ(run->data_bytes[0], PredictDataBytes(layout, options, communicator.rank()))
              << testing::Describe(options, 6) << ", shard_size " << options.shard_size << ", rank " << communicator.rank();
          if (communicator.rank() == 0) runs[i] = *std::move(run);
        });
      }
      // Gradients are averages of six numbers of at most 2 each; in bf16 they are rounded once more, to 8 bits.
      const float bound = 2 * 2 * 5 * 0x1p-24f;
      for (const auto& [name, values] : runs[0].gradients) {
        const std::vector<float>& grouped = runs[1].gradients.at(name);
        for (size_t e = 0; e < values.size(); ++e) {
          const float rounding = dtype == DType::kBfloat16 ? std::fabs(values[e]) * 0x1p-7f : 0;
          ASSERT_LE(std::fabs(values[e] - grouped[e]), bound + rounding) << name << "[" << e << "]";
        }
      }
    }
  });
}

TEST(EngineHybrid, MuonHasTheBitsOfOneGroup) {
  const std::vector<model::UnitSpec> units = {
      {.name = "first", .parameters = {{.name = "embedding", .shape = {9, 5}, .group = 1}}},
      {.name = "block", .parameters = {{.name = "wide", .shape = {6, 20}}, {.name = "square", .shape = {12, 12}}}}};
  TrainingRun runs[2];
  for (int stage = 1; stage <= 3; ++stage) {
    for (int i = 0; i < 2; ++i) {
      EngineOptions options = Options(stage, Partition::kTensor, i == 0 ? 0 : 2);
      options.optimizer = {.kind = optim::Kind::kMuon,
                           .momentum = 0.9,
                           .nesterov = true,
                           .schedule = {.learning_rate = 0.02},
                           .groups = {{.weight_decay = 0.1, .orthogonal = true}, {}}};
      RunOnRanks({.world_size = 4}, [&, i](comm::Communicator& communicator) {
        absl::StatusOr<TrainingRun> run = testing::Train(communicator, units, options, {.steps = 2});
        ASSERT_TRUE(run.ok()) << run.status();
        if (communicator.rank() == 3) runs[i] = *std::move(run);
      });
    }
    EXPECT_EQ(runs[0].weights, runs[1].weights) << "stage " << stage;
    EXPECT_EQ(runs[0].moments[0], runs[1].moments[0]) << "stage " << stage;
  }
}

TEST(EngineHybrid, MemoryIsTheFormulas) {
  for (const auto& [world, shard] : {std::pair(4, 2), {4, 1}, {6, 3}, {6, 2}}) {
    ForEachStageAndPartition(/*least_stage=*/1, [&, world = world, shard = shard](int stage, Partition partition) {
      for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        for (bool reduce_scatter : {true, false}) {
          EngineOptions options = Options(stage, partition, shard);
          options.dtype = dtype;
          options.reduce_scatter = reduce_scatter;
          options.reduce_bucket_size = reduce_scatter ? 1000 : 100'000;
          SCOPED_TRACE(testing::Describe(options, world) + ", shard_size " + std::to_string(shard));
          RunOnRanks({.world_size = world}, [&](comm::Communicator& communicator) {
            device::MemoryLedger& ledger = communicator.device().ledger();
            const int64_t before = ledger.now(Use::kCommunication);
            const int64_t predicted = ledger.predicted(Use::kCommunication);
            auto engine = Engine::Create(communicator, OddUnits(), options);
            ASSERT_TRUE(engine.ok()) << engine.status();
            const MemoryBytes bytes = PredictMemory((*engine)->layout(), options, communicator.rank());
            EXPECT_EQ(ledger.now(Use::kParameters), bytes.parameters);
            EXPECT_EQ(ledger.now(Use::kGradients), bytes.gradients);
            EXPECT_EQ(ledger.now(Use::kMasterWeights), bytes.master_weights);
            EXPECT_EQ(ledger.now(Use::kMoments), bytes.moments);
            // Beside it, what each of the engine's two communicators of several ranks has of scratch.
            const int64_t scratch = (shard == 1 ? 0 : 2) * (int64_t{1} << 20);
            EXPECT_EQ(ledger.now(Use::kCommunication) - before, bytes.communication + scratch);
            EXPECT_EQ(ledger.predicted(Use::kCommunication) - predicted, bytes.communication + scratch);
            engine->reset();
            EXPECT_EQ(ledger.now(Use::kCommunication), before);
          });
        }
      }
    });
  }
}

// Four units of 10,240 elements on eight ranks, in groups of four: Ψ/S in place of Ψ/N.
TEST(EngineHybrid, HoldsAFourthAndSendsWithinAndAcross) {
  const int64_t psi = 40960;
  const auto layout_of = [](const EngineOptions& options) {
    return *Layout::Create(EqualUnits(4, 10240), LayoutOptionsOf(options, 8));
  };
  const auto held = [&](int stage, DType dtype) {
    EngineOptions options = Options(stage, Partition::kFlat, 4);
    options.dtype = dtype;
    const MemoryBytes m = PredictMemory(layout_of(options), options, 7);
    return m.parameters + m.gradients + m.master_weights + m.moments;
  };
  EXPECT_EQ(held(0, DType::kFloat32), 16 * psi);
  EXPECT_EQ(held(1, DType::kFloat32), 8 * psi + 8 * psi / 4);
  EXPECT_EQ(held(2, DType::kFloat32), 4 * psi + 12 * psi / 4);
  EXPECT_EQ(held(3, DType::kFloat32), 16 * psi / 4);
  EXPECT_EQ(held(3, DType::kBfloat16), 16 * psi / 4);
  const auto sent = [&](int stage, DType dtype, int accumulation) {
    EngineOptions options = Options(stage, Partition::kFlat, 4);
    options.dtype = dtype;
    options.accumulation = accumulation;
    return PredictDataBytes(layout_of(options), options, 7);
  };
  const int64_t within = psi * 3 / 4, across = psi / 4 / 2;
  EXPECT_EQ(sent(0, DType::kFloat32, 1), 4 * 2 * psi * 7 / 8);
  EXPECT_EQ(sent(1, DType::kFloat32, 1), 4 * (within + 2 * across + within));
  EXPECT_EQ(sent(2, DType::kFloat32, 3), 4 * (3 * (within + 2 * across) + within));
  EXPECT_EQ(sent(1, DType::kBfloat16, 1), 2 * within + (4 + 2) * across + 2 * within);
}

TEST(EngineHybrid, StagesTwoBucketsOfTwoByteGradients) {
  EngineOptions options = Options(2, Partition::kFlat, 4);
  options.reduce_bucket_size = 1024;
  const auto in_between = [&] {
    const Layout layout = *Layout::Create(EqualUnits(4, 6400), LayoutOptionsOf(options, 8));
    EngineOptions whole = options;
    whole.reduce_scatter = false;
    return PredictMemory(layout, options, 0).communication - PredictMemory(layout, whole, 0).communication;
  };
  EXPECT_EQ(in_between(), 0);
  options.dtype = DType::kBfloat16;
  EXPECT_EQ(in_between(), 2 * 1024 / 4 * 4);
  options.communication_dtype = DType::kFloat32;
  EXPECT_EQ(in_between(), 0);
}

TEST(EngineHybrid, AGradientThatIsNotFiniteIsNamedWithItsRankOfAll) {
  ForEachStageAndPartition(/*least_stage=*/1, [](int stage, Partition partition) {
    RunOnRanks({.world_size = 4}, [&](comm::Communicator& communicator) {
      auto engine = Engine::Create(communicator, EqualUnits(1, 100), Options(stage, partition, 2));
      ASSERT_TRUE(engine.ok()) << engine.status();
      const auto backward = [&]() -> absl::Status {
        ZS_RETURN_IF_ERROR((*engine)->Unshard(0, Pass::kBackward));
        ZS_ASSIGN_OR_RETURN(const auto targets, (*engine)->gradients(0));
        communicator.device().elementwise().Fill((*engine)->compute(), targets[0].array,
                                                 communicator.rank() == 3 ? std::numeric_limits<double>::infinity() : 1);
        ZS_RETURN_IF_ERROR((*engine)->GradientsReady(0));
        ZS_RETURN_IF_ERROR((*engine)->Reshard(0));
        return (*engine)->Step();
      };
      ASSERT_EQ(backward(), absl::OkStatus());
      const absl::StatusOr<StepResult> result = (*engine)->Result();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->skipped);
      EXPECT_EQ(result->non_finite_blocks, 2) << "once, not once for each group";
      const auto found = (*engine)->FindNonFinite();
      ASSERT_TRUE(found.ok() && found->has_value());
      EXPECT_EQ((*found)->rank, 3);
    });
  });
}

TEST(EngineHybrid, WhatOneRankLosesIsLostToAllItsGroups) {
  for (int victim : {0, 3}) {
    std::mutex mutex;
    std::vector<std::string> causes;
    RunOnRanks({.world_size = 4}, [&](comm::Communicator& communicator) {
      auto engine = Engine::Create(communicator, EqualUnits(3, 500), Options(3, Partition::kFlat, 2));
      ASSERT_TRUE(engine.ok()) << engine.status();
      if (communicator.rank() == victim) return communicator.Abort(absl::UnavailableError("has had enough"));
      absl::Status status;
      for (int i = 0; i < 1000 && status.ok(); ++i) {
        status = (*engine)->Unshard(i % 3, Pass::kForward);
        if (status.ok()) status = (*engine)->Reshard(i % 3);
        (*engine)->compute().Synchronize();
        if (status.ok()) status = (*engine)->Barrier("meet");
      }
      EXPECT_EQ(communicator.status().code(), absl::StatusCode::kUnavailable);
      std::lock_guard<std::mutex> lock(mutex);
      causes.emplace_back(status.message());
    });
    ASSERT_EQ(causes.size(), 3u);
    for (const std::string& cause : causes) {
      EXPECT_THAT(cause, HasSubstr("rank " + std::to_string(victim) + " gave up: has had enough"));
    }
  }
}

TEST(EngineHybrid, IsRefusedWithTheReason) {
  const auto expect = [](const EngineOptions& options, int world, const std::string& words) {
    absl::Status status = Validate(options);
    if (status.ok()) status = CheckWorld(options, world);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  expect(Options(2, Partition::kFlat, -1), 4, "shard_size is -1; it is at least 0");
  expect(Options(2, Partition::kFlat, 3), 4,
         "shard_size is 3 on 4 ranks; it divides their number: 1, 2, 4, or 0 for all of them");
  expect(Options(0, Partition::kFlat, 8), 4, "shard_size is 8 on 4 ranks");
  EngineOptions invariant = Options(2, Partition::kFlat, 3);
  invariant.world_invariant = true;
  expect(invariant, 6, "world_invariant with shard_size 3 on 6 ranks: sums within 3 ranks are no subtrees");
  RunOnRanks({.world_size = 3}, [&](comm::Communicator& communicator) {
    const absl::Status status = Engine::Create(communicator, EqualUnits(1, 64), Options(1, Partition::kFlat, 2)).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard_size is 2 on 3 ranks"));
  });
}

TEST(EngineHybrid, RanksThatWereGivenOtherSizesAreToldSo) {
  RunOnRanks({.world_size = 4}, [&](comm::Communicator& communicator) {
    const int size = communicator.rank() == 2 ? 4 : 2;
    const absl::Status status =
        Engine::Create(communicator, EqualUnits(1, 256), Options(1, Partition::kFlat, size)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard_size " + std::to_string(size)));
  });
}

}  // namespace
}  // namespace zeroshard::zero
