// The engine's face: what it refuses, and how whole tensors are read and written.

#include "zeroshard/zero/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using model::UnitSpec;
using testing::EqualUnits;
using testing::OddUnits;
using testing::RunOnRanks;

EngineOptions Options(int stage, Partition partition = Partition::kFlat) {
  EngineOptions options;
  options.stage = stage;
  options.partition = partition;
  options.optimizer.groups = {{}, {}};
  return options;
}

// On every rank of a small world, an engine in every stage and partition.
void OnEngines(
    const std::vector<UnitSpec>& units, int world_size, const std::function<void(Engine&, comm::Communicator&)>& check,
    const std::function<void(EngineOptions&)>& change = [](EngineOptions&) {}) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      EngineOptions options = Options(stage, partition);
      change(options);
      SCOPED_TRACE(testing::Describe(options, world_size));
      RunOnRanks({.world_size = world_size}, [&](comm::Communicator& communicator) {
        absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(communicator, units, options);
        ASSERT_TRUE(engine.ok()) << engine.status();
        check(**engine, communicator);
      });
    }
  }
}

absl::Status StatusOf(const absl::Status& status) { return status; }
template <class T>
absl::Status StatusOf(const absl::StatusOr<T>& status) {
  return status.status();
}
#define EXPECT_OK(expression) EXPECT_EQ(StatusOf(expression), absl::OkStatus())
#define ASSERT_OK(expression) ASSERT_EQ(StatusOf(expression), absl::OkStatus())

void ExpectSays(const absl::Status& status, absl::StatusCode code, std::string_view part) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
}

std::vector<float> Count(int64_t n, float first) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

TEST(Engine, TouchingAShardedUnitIsAnErrorInEveryStage) {
  std::vector<UnitSpec> units = EqualUnits(2, 100);
  units[1].parameters[0].shape = {20, 5};
  OnEngines(units, 2, [](Engine& engine, comm::Communicator&) {
    ExpectSays(engine.parameters(1).status(), absl::StatusCode::kFailedPrecondition, "unit unit.1 are sharded");
    const Parameter& sharded = engine.layout().parameters()[1];
    EXPECT_EQ(sharded.spec.name, "unit.1.weight");
    EXPECT_EQ(sharded.spec.shape, (std::vector<int64_t>{20, 5}));
    EXPECT_EQ(sharded.elements, 100);
    ASSERT_OK(engine.Unshard(1, Pass::kForward));
    EXPECT_EQ((*engine.parameters(1))[0].elements(), 100);
    ExpectSays(engine.gradients(1).status(), absl::StatusCode::kFailedPrecondition, "not unsharded for backward");
    ASSERT_OK(engine.Reshard(1));
    EXPECT_FALSE(engine.parameters(1).ok());
    EXPECT_FALSE(engine.gradients(1).ok());
  });
}

TEST(Engine, UnshardAndReshardAreIdempotent) {
  OnEngines(EqualUnits(2, 100), 2, [](Engine& engine, comm::Communicator&) {
    for (int i = 0; i < 3; ++i) EXPECT_OK(engine.Unshard(0, Pass::kForward));
    const device::Array first = (*engine.parameters(0))[0];
    EXPECT_OK(engine.Unshard(0, Pass::kBackward));
    EXPECT_EQ((*engine.parameters(0))[0], first);
    for (int i = 0; i < 3; ++i) EXPECT_OK(engine.Reshard(0));
    EXPECT_FALSE(engine.parameters(0).ok());
  });
}

TEST(Engine, AUnitThatBackwardDoesNotReadHasNoParametersThere) {
  OnEngines(OddUnits(), 2, [](Engine& engine, comm::Communicator&) {
    ASSERT_OK(engine.Unshard(0, Pass::kBackward));
    EXPECT_TRUE(engine.parameters(0)->empty());
    EXPECT_EQ(engine.gradients(0)->size(), 2u);
    ASSERT_OK(engine.Abandon());
  });
}

TEST(Engine, MoreUnitsAtOnceThanSlotsAreRefusedByName) {
  RunOnRanks({.world_size = 2}, [](comm::Communicator& communicator) {
    auto engine = Engine::Create(communicator, EqualUnits(4, 100), Options(3));
    ASSERT_OK(engine);
    ASSERT_OK((*engine)->Unshard(0, Pass::kForward));
    ASSERT_OK((*engine)->Unshard(1, Pass::kForward));
    ExpectSays((*engine)->Unshard(2, Pass::kForward), absl::StatusCode::kFailedPrecondition,
               "no memory to gather unit unit.2");
    ASSERT_OK((*engine)->Reshard(0));
    EXPECT_OK((*engine)->Unshard(2, Pass::kForward));
  });
}

TEST(Engine, StepRefusesUnitsUnderWay) {
  OnEngines(EqualUnits(2, 100), 1, [](Engine& engine, comm::Communicator&) {
    ASSERT_OK(engine.Unshard(1, Pass::kBackward));
    ExpectSays(engine.Step(), absl::StatusCode::kFailedPrecondition, "Step while unit unit.1 is unsharded");
    ASSERT_OK(engine.gradients(1));
    ASSERT_OK(engine.Reshard(1));
    ExpectSays(engine.Step(), absl::StatusCode::kFailedPrecondition, "gradients of unit unit.1 are under way");
    ASSERT_OK(engine.Abandon());
    EXPECT_OK(engine.Step());
  });
}

TEST(Engine, OneMicroBatchTooManyIsRefused) {
  OnEngines(EqualUnits(1, 100), 1, [](Engine& engine, comm::Communicator&) {
    ASSERT_OK(engine.GradientsReady(0));
    ExpectSays(engine.GradientsReady(0), absl::StatusCode::kFailedPrecondition,
               "for the 2th time in a step of accumulation = 1");
    EXPECT_OK(engine.Step());
    EXPECT_OK(engine.GradientsReady(0));
  });
}

TEST(Engine, RefusesOptionsUnitsAndNamesByValue) {
  RunOnRanks({.world_size = 1}, [](comm::Communicator& communicator) {
    const auto refused = [&](const std::function<void(EngineOptions&)>& change, std::string_view part) {
      EngineOptions options = Options(2);
      change(options);
      ExpectSays(Engine::Create(communicator, OddUnits(), options).status(), absl::StatusCode::kInvalidArgument, part);
    };
    refused([](EngineOptions& o) { o.stage = 4; }, "stage is 4");
    refused([](EngineOptions& o) { o.reduce_bucket_size = 0; }, "reduce_bucket_size is 0");
    refused([](EngineOptions& o) { o.prefetch = -1; }, "prefetch is -1");
    refused([](EngineOptions& o) { o.accumulation = 0; }, "accumulation is 0");
    refused([](EngineOptions& o) { o.clip = std::nan(""); }, "clip is nan");
    refused([](EngineOptions& o) { o.gradient_scale = 0; }, "gradient_scale is 0");
    refused([](EngineOptions& o) { o.optimizer.groups.pop_back(); }, "wpe is of group 1");
    auto engine = Engine::Create(communicator, OddUnits(), Options(2));
    ASSERT_OK(engine);
    std::vector<float> values(403);
    ExpectSays((*engine)->Unshard(6, Pass::kForward), absl::StatusCode::kInvalidArgument, "unit 6");
    ExpectSays((*engine)->ReadParameter("nobody", values), absl::StatusCode::kNotFound, "nobody");
    ExpectSays((*engine)->ReadParameter("norm", values), absl::StatusCode::kInvalidArgument,
               "norm [13] has 13 elements; 403");
    ExpectSays((*engine)->ReadGradient("still.weight", std::span(values).first(25)), absl::StatusCode::kInvalidArgument,
               "frozen");
    ExpectSays((*engine)->ReadMoment("momentum_buffer", "wte", values), absl::StatusCode::kNotFound,
               "adamw keeps no momentum_buffer");
    ExpectSays((*engine)->Result().status(), absl::StatusCode::kFailedPrecondition, "no step");
  });
}

TEST(Engine, RanksThatWereGivenDifferentThingsAreToldBeforeTheFirstStep) {
  for (bool other_options : {true, false}) {
    RunOnRanks({.world_size = 3}, [&](comm::Communicator& communicator) {
      EngineOptions options = Options(2);
      std::vector<UnitSpec> units = EqualUnits(2, 100);
      const int rank = communicator.rank();
      if (rank == 1 && other_options) options.clip = 3;
      if (rank == 1 && !other_options) units[1].parameters[0].name = "weight";
      const std::string part =
          absl::StrCat("rank ", rank == 1 ? 0 : 1, other_options ? " was given other options" : " was given another model");
      ExpectSays(Engine::Create(communicator, units, options).status(), absl::StatusCode::kFailedPrecondition, part);
    });
  }
}

TEST(Engine, WritesAndReadsEveryTensorByName) {
  OnEngines(OddUnits(), 3, [](Engine& engine, comm::Communicator& communicator) {
    const bool first = communicator.rank() == 0;
    std::vector<float> values(31 * 13);
    // Rank 0's values count; others may give other ones, or none.
    ASSERT_OK(engine.WriteParameter("wte", Count(403, first ? 1 : 900)));
    ASSERT_OK(engine.WriteParameter("still.weight", first ? Count(25, 7) : std::vector<float>()));
    ASSERT_OK(engine.ReadParameter("lm_head", values));
    EXPECT_EQ(values, Count(403, 1));
    values.resize(25);
    ASSERT_OK(engine.ReadParameter("still.weight", values));
    EXPECT_EQ(values, Count(25, 7));
    values.resize(39 * 17);
    ASSERT_OK(engine.WriteMoment("exp_avg_sq", "block.1.weight", Count(663, 3)));
    ASSERT_OK(engine.ReadMoment("exp_avg_sq", "block.1.weight", values));
    EXPECT_EQ(values, Count(663, 3));
    ASSERT_OK(engine.WriteGradient("block.1.weight", Count(663, 5)));
    ASSERT_OK(engine.ReadGradient("block.1.weight", values));
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], 5 + static_cast<float>(i), 1e-3);
    values.resize(0);
    EXPECT_OK(engine.ReadParameter("block.0.empty", values));
    EXPECT_OK(engine.WriteParameter("block.0.empty", values));
  });
}

TEST(Engine, AWrittenParameterIsSeenByUnitsThatWereKept) {
  OnEngines(
      EqualUnits(2, 100), 2,
      [](Engine& engine, comm::Communicator&) {
        for (float first : {1.0f, 500.0f}) {
          ASSERT_OK(engine.WriteParameter("unit.1.weight", Count(100, first)));
          for (int u : {0, 1}) {
            ASSERT_OK(engine.Unshard(u, Pass::kForward));
            if (u == 1) {
              std::vector<float> seen(100);
              engine.compute().device().CopyToHost(engine.compute(), (*engine.parameters(1))[0], seen.data());
              engine.compute().Synchronize();
              EXPECT_EQ(seen, Count(100, first));
            }
            ASSERT_OK(engine.Reshard(u));
          }
        }
      },
      [](EngineOptions& options) { options.keep_parameters = true; });
}

TEST(Engine, AGradientIsReadBeforeAndAfterTheStep) {
  OnEngines(EqualUnits(2, 100), 2, [](Engine& engine, comm::Communicator& communicator) {
    ASSERT_OK(engine.Unshard(1, Pass::kBackward));
    const device::Array target = (*engine.gradients(1))[0].array;
    engine.compute().device().elementwise().Fill(engine.compute(), target, communicator.rank() + 1.0);
    ASSERT_OK(engine.GradientsReady(1));
    ASSERT_OK(engine.Reshard(1));
    std::vector<float> values(100);
    ASSERT_OK(engine.ReadGradient("unit.1.weight", values));
    EXPECT_EQ(values, std::vector<float>(100, 1.5f));
    ExpectSays(engine.GradientsReady(0), absl::StatusCode::kFailedPrecondition, "after this step's gradients were reduced");
    ASSERT_OK(engine.Step());
    ASSERT_OK(engine.ReadGradient("unit.1.weight", values));
    EXPECT_EQ(values, std::vector<float>(100, 1.5f));
    ASSERT_OK(engine.ReadGradient("unit.0.weight", values));
    EXPECT_EQ(values, std::vector<float>(100, 0.0f));
  });
}

TEST(Engine, TheNormOfTenThousandOnesIsAHundredOnEveryRank) {
  for (int world : {1, 2, 3, 4}) {
    OnEngines(
        {{.name = "u",
          .parameters = {{.name = "a", .shape = {9991}},
                         {.name = "b", .shape = {9}},
                         {.name = "f", .shape = {50}, .trainable = false}}}},
        world,
        [](Engine& engine, comm::Communicator&) {
          ASSERT_OK(engine.WriteGradient("a", std::vector<float>(9991, 1)));
          ASSERT_OK(engine.WriteGradient("b", std::vector<float>(9, 1)));
          ASSERT_OK(engine.Step());
          EXPECT_EQ(engine.Result()->gradient_norm, 100);
          EXPECT_NEAR(engine.Result()->clip_factor, 0.05, 1e-8);
        },
        [world](EngineOptions& options) {
          options.average = false;
          options.clip = 5;
          // In stage 3 "b" stays whole on every rank, beside shards of "a".
          options.persistence_threshold = world % 2 == 0 ? 100 : 0;
        });
  }
}

TEST(Engine, ANonFiniteGradientOfOneRankIsSkippedByAll) {
  OnEngines(EqualUnits(2, 100), 3, [](Engine& engine, comm::Communicator& communicator) {
    ASSERT_OK(engine.WriteParameter("unit.0.weight", Count(100, 1)));
    for (int step = 0; step < 2; ++step) {
      ASSERT_OK(engine.Unshard(0, Pass::kBackward));
      const device::Array target = (*engine.gradients(0))[0].array;
      const bool infinite = step == 0 && communicator.rank() == 1;
      engine.compute().device().elementwise().Fill(engine.compute(), target,
                                                   infinite ? std::numeric_limits<double>::infinity() : 1);
      ASSERT_OK(engine.GradientsReady(0));
      ASSERT_OK(engine.Reshard(0));
      ASSERT_OK(engine.Step());
      const absl::StatusOr<StepResult> result = engine.Result();
      ASSERT_OK(result);
      EXPECT_EQ(result->skipped, step == 0);
      EXPECT_EQ(result->applied_steps, step);
      EXPECT_EQ(result->skipped_steps, 1);
      std::vector<float> values(100);
      ASSERT_OK(engine.ReadParameter("unit.0.weight", values));
      EXPECT_EQ(values == Count(100, 1), step == 0);
    }
  });
}

TEST(Engine, AFrozenParameterIsNotInTheNormAndKeepsItsState) {
  OnEngines(EqualUnits(3, 100), 2, [](Engine& engine, comm::Communicator&) {
    ASSERT_OK(engine.SetFrozen("unit.*", true));
    ASSERT_OK(engine.SetFrozen("*.1.weig*", false));
    EXPECT_TRUE(*engine.IsFrozen("unit.0.weight"));
    EXPECT_FALSE(*engine.IsFrozen("unit.1.weight"));
    for (int u : {2, 1, 0}) {
      ASSERT_OK(engine.Unshard(u, Pass::kBackward));
      const device::Array target = (*engine.gradients(u))[0].array;
      EXPECT_EQ(target.empty(), u != 1);
      if (!target.empty()) engine.compute().device().elementwise().Fill(engine.compute(), target, 2);
      ASSERT_OK(engine.GradientsReady(u));
      ASSERT_OK(engine.Reshard(u));
    }
    ExpectSays(engine.SetFrozen("unit.0.weight", false), absl::StatusCode::kFailedPrecondition, "in the middle of a step");
    ASSERT_OK(engine.Step());
    EXPECT_EQ(engine.Result()->gradient_norm, 20);
    std::vector<float> values(100);
    ExpectSays(engine.ReadGradient("unit.0.weight", values), absl::StatusCode::kFailedPrecondition, "is frozen for now");
    ASSERT_OK(engine.ReadParameter("unit.0.weight", values));
    EXPECT_EQ(values, std::vector<float>(100, 0));
  });
}

TEST(Engine, WhatCannotBeFrozenOrUnfrozenIsRefusedByName) {
  OnEngines(OddUnits(), 2, [](Engine& engine, comm::Communicator& communicator) {
    ExpectSays(engine.SetFrozen("block.7.*", true), absl::StatusCode::kNotFound, "no parameter is called block.7.*");
    ExpectSays(engine.SetFrozen("still.weight", false), absl::StatusCode::kInvalidArgument,
               "still.weight cannot be unfrozen");
    EXPECT_OK(engine.SetFrozen("still.weight", true));
    EXPECT_OK(engine.SetFrozen("lm_head", true));
    EXPECT_TRUE(*engine.IsFrozen("wte"));
    EXPECT_OK(engine.SetFrozen("wt?", false));
    ExpectSays(engine.SetFrozen(communicator.rank() == 0 ? "wte" : "wpe", true), absl::StatusCode::kFailedPrecondition,
               "ranks call SetFrozen for different parameters");
    EXPECT_FALSE(*engine.IsFrozen("wte"));
  });
}

// Backward of every unit; gradients are 1, but for unit 1's on one rank.
void BackwardWith(Engine& engine, comm::Communicator& communicator, int rank, double bad) {
  for (int u : {2, 1, 0}) {
    ASSERT_OK(engine.Unshard(u, Pass::kBackward));
    const device::Array target = (*engine.gradients(u))[0].array;
    device::Elementwise& elementwise = engine.compute().device().elementwise();
    elementwise.Fill(engine.compute(), target, 1);
    if (u == 1 && communicator.rank() == rank) elementwise.Fill(engine.compute(), target.Slice(57, 1), bad);
    ASSERT_OK(engine.GradientsReady(u));
    ASSERT_OK(engine.Reshard(u));
  }
}

TEST(Engine, ANonFiniteGradientIsNamedWithItsRank) {
  for (device::DType dtype : {device::DType::kFloat32, device::DType::kBfloat16}) {
    OnEngines(
        EqualUnits(3, 100), 3,
        [](Engine& engine, comm::Communicator& communicator) {
          for (double bad : {1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1.0}) {
            BackwardWith(engine, communicator, /*rank=*/2, bad);
            ExpectSays(engine.FindNonFinite().status(), absl::StatusCode::kFailedPrecondition, "after the next step began");
            ASSERT_OK(engine.Step());
            EXPECT_EQ(engine.Result()->skipped, bad != 1);
            const auto found = engine.FindNonFinite();
            ASSERT_OK(found);
            ASSERT_EQ(found->has_value(), bad != 1);
            if (!found->has_value()) continue;
            EXPECT_EQ((*found)->parameter, "unit.1.weight");
            EXPECT_EQ((*found)->unit, "unit.1");
            EXPECT_EQ((*found)->rank, 2);
            EXPECT_EQ((*found)->is_nan, std::isnan(bad));
          }
        },
        [&](EngineOptions& options) { options.dtype = dtype; });
  }
}

TEST(Engine, ARankIsNamedOnlyWhereRanksWatch) {
  OnEngines(
      EqualUnits(3, 100), 2,
      [](Engine& engine, comm::Communicator& communicator) {
        for (bool on : {false, true, false}) {
          engine.WatchGradients(on);
          BackwardWith(engine, communicator, /*rank=*/1, std::numeric_limits<double>::infinity());
          ASSERT_OK(engine.Step());
          const auto found = engine.FindNonFinite();
          ASSERT_OK(found);
          ASSERT_TRUE(found->has_value());
          EXPECT_EQ((*found)->parameter, "unit.1.weight");
          EXPECT_EQ((*found)->watched, on);
          EXPECT_EQ((*found)->rank, on ? 1 : -1);
        }
      },
      [](EngineOptions& options) {
        options.dtype = device::DType::kFloat16;
        options.optimizer.loss_scale.kind = device::LossScaleKind::kDynamic;
      });
}

TEST(Engine, ASumOverRanksThatOverflowsIsNoRanksFault) {
  OnEngines(EqualUnits(3, 100), 2, [](Engine& engine, comm::Communicator& communicator) {
    for (int u : {2, 1, 0}) {
      ASSERT_OK(engine.Unshard(u, Pass::kBackward));
      engine.compute().device().elementwise().Fill(engine.compute(), (*engine.gradients(u))[0].array, 3e38);
      ASSERT_OK(engine.GradientsReady(u));
      ASSERT_OK(engine.Reshard(u));
    }
    ASSERT_OK(engine.Step());
    const auto found = engine.FindNonFinite();
    ASSERT_OK(found);
    ASSERT_TRUE(found->has_value());
    EXPECT_EQ((*found)->parameter, "unit.0.weight");
    EXPECT_EQ((*found)->rank, -1);
    EXPECT_EQ(communicator.status(), absl::OkStatus());
  });
}

TEST(Engine, AStepsOwnLearningRateComesBeforeTheSchedules) {
  OnEngines(EqualUnits(1, 10), 1, [](Engine& engine, comm::Communicator&) {
    ASSERT_OK(engine.Step({.learning_rate = 0.25}));
    EXPECT_EQ(engine.Result()->learning_rate, 0.25);
    ASSERT_OK(engine.Step());
    EXPECT_EQ(engine.Result()->learning_rate, 1e-3);
  });
}

TEST(Engine, ARankWithoutRowsJoinsWithZeros) {
  OnEngines(EqualUnits(2, 100), 2, [](Engine& engine, comm::Communicator& communicator) {
    for (int u : {1, 0}) {
      ASSERT_OK(engine.Unshard(u, Pass::kBackward));
      if (communicator.rank() == 0) {
        engine.compute().device().elementwise().Fill(engine.compute(), (*engine.gradients(u))[0].array, 4);
      }
      ASSERT_OK(engine.GradientsReady(u));
      ASSERT_OK(engine.Reshard(u));
    }
    ASSERT_OK(engine.Step());
    std::vector<float> values(100);
    ASSERT_OK(engine.ReadGradient("unit.0.weight", values));
    EXPECT_EQ(values, std::vector<float>(100, 2.0f));
  });
}

TEST(Engine, AfterAnAbortEveryCallSaysWhy) {
  OnEngines(EqualUnits(2, 100), 2, [](Engine& engine, comm::Communicator& communicator) {
    communicator.Abort(absl::UnavailableError("rank 1 was seen to die"));
    for (const absl::Status& status : {engine.Unshard(0, Pass::kForward), engine.Step(), engine.GradientsReady(0),
                                       engine.Abandon(), engine.Result().status()}) {
      EXPECT_FALSE(status.ok());
    }
  });
}

}  // namespace
}  // namespace zeroshard::zero
