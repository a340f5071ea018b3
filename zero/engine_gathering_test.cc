// What stage 3 gathers ahead, keeps, and leaves whole: the same bits as plain loops, bytes as the formulas say, bounds held.

#include <gtest/gtest.h>

#include <future>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/recorder.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/gather_plan.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using device::Use;
using model::UnitSpec;
using testing::EqualUnits;
using testing::ExpectReference;
using testing::OddUnits;
using testing::RunOnRanks;
using testing::Schedule;

constexpr int64_t kHuge = 1'000'000'000;

EngineOptions StageThree() {
  EngineOptions options;
  options.stage = 3;
  options.reduce_bucket_size = 1000;
  options.accumulation = 2;
  options.clip = 0.5;
  options.optimizer.groups = {{.weight_decay = 0.1}, {.weight_decay = 0, .learning_rate_scale = 0.5}};
  return options;
}

Layout LayoutOf(const std::vector<UnitSpec>& units, const EngineOptions& options, int world_size) {
  absl::StatusOr<Layout> layout = Layout::Create(units, LayoutOptionsOf(options, world_size));
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// Bits as the reference's, bytes on the wire as the formula's, in each step.
void Expect(const std::vector<UnitSpec>& units, const EngineOptions& options, int world_size) {
  SCOPED_TRACE(testing::Describe(options, world_size));
  const Layout layout = LayoutOf(units, options, world_size);
  const std::vector<testing::TrainingRun> runs = ExpectReference(units, options, {.world_size = world_size}, {.steps = 3});
  for (int r = 0; r < world_size; ++r) {
    for (int64_t sent : runs[r].data_bytes) EXPECT_EQ(sent, PredictDataBytes(layout, options, r)) << "rank " << r;
  }
}

int64_t LargestUnit(const std::vector<UnitSpec>& units, const EngineOptions& options, int world_size) {
  const Layout layout = LayoutOf(units, options, world_size);
  int64_t largest = 0;
  for (int u = 0; u < static_cast<int>(units.size()); ++u) largest = std::max(largest, GatheredElements(layout, u));
  return largest;
}

void ForEachPartitionAndWorld(const std::function<void(EngineOptions, int world_size)>& check) {
  for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
    for (int world : {1, 2, 3}) {
      EngineOptions options = StageThree();
      options.partition = partition;
      check(options, world);
    }
  }
}

TEST(EngineGathering, PrefetchByBucketChangesNoBitAndNoByte) {
  ForEachPartitionAndWorld([](EngineOptions options, int world) {
    for (int64_t bucket : {int64_t{1}, int64_t{1000}, int64_t{2500}, kHuge}) {
      for (bool overlap : {true, false}) {
        options.prefetch_bucket_size = bucket;
        options.overlap = overlap;
        Expect(OddUnits(), options, world);
      }
    }
  });
}

// OddUnits have tensors of 3, 13, 25, 39, 70, 91, 403 and 663 elements, trainable, frozen and tied.
TEST(EngineGathering, PersistentParametersOfEverySizeChangeNoBit) {
  ForEachPartitionAndWorld([](EngineOptions options, int world) {
    for (int64_t threshold : {int64_t{3}, int64_t{4}, int64_t{70}, int64_t{71}, int64_t{404}, kHuge}) {
      options.persistence_threshold = threshold;
      options.overlap = threshold != 71;
      Expect(OddUnits(), options, world);
    }
  });
}

TEST(EngineGathering, ABoundOfLiveParametersChangesNoBitAndNoByte) {
  ForEachPartitionAndWorld([](EngineOptions options, int world) {
    const int64_t largest = LargestUnit(OddUnits(), options, world);
    for (int64_t bound : {largest, largest + 128, 2 * largest, kHuge}) {
      for (bool keep : {false, true}) {
        options.max_live_parameters = bound;
        options.prefetch_bucket_size = kHuge;
        options.keep_parameters = keep;
        Expect(OddUnits(), options, world);
      }
    }
  });
}

TEST(EngineGathering, WhatIsReusedSoonIsKeptAndNotGatheredAgain) {
  ForEachPartitionAndWorld([](EngineOptions options, int world) {
    for (int64_t distance : {int64_t{1}, int64_t{2000}, int64_t{4000}, kHuge}) {
      options.max_reuse_distance = distance;
      for (int64_t bound : {int64_t{0}, 2 * LargestUnit(OddUnits(), options, world)}) {
        options.max_live_parameters = bound;
        Expect(OddUnits(), options, world);
      }
    }
  });
}

TEST(EngineGathering, AllOfItTogether) {
  ForEachPartitionAndWorld([](EngineOptions options, int world) {
    options.prefetch_bucket_size = 2500;
    options.persistence_threshold = 71;
    options.max_reuse_distance = 3000;
    options.max_live_parameters = 2 * LargestUnit(OddUnits(), options, world);
    for (device::DType dtype : {device::DType::kFloat32, device::DType::kBfloat16}) {
      for (bool reduce_scatter : {true, false}) {
        options.dtype = dtype;
        options.reduce_scatter = reduce_scatter;
        options.overlap = reduce_scatter;
        Expect(OddUnits(), options, world);
      }
    }
  });
}

// Four units of 640 elements and a bias of 64 each, on two ranks.
std::vector<UnitSpec> UnitsWithBias() {
  std::vector<UnitSpec> units = EqualUnits(4, 640);
  for (UnitSpec& unit : units) unit.parameters.push_back({.name = unit.name + ".bias", .shape = {64}});
  return units;
}

TEST(EngineGathering, AParameterOfTheThresholdsSizeIsNotPersistent) {
  EngineOptions options = StageThree();
  for (const auto& [threshold, persistent] : {std::pair<int64_t, bool>(63, false), {64, false}, {65, true}}) {
    options.persistence_threshold = threshold;
    const Layout layout = LayoutOf(UnitsWithBias(), options, 2);
    const int section = layout.parameters()[*layout.Find("unit.1.bias")].section;
    EXPECT_EQ(layout.sections()[section].persistent, persistent) << threshold;
    EXPECT_FALSE(layout.sections()[layout.parameters()[*layout.Find("unit.1.weight")].section].persistent);
  }
}

// In bytes: a section of 640 stays 640, of 64 is padded to 128, of 704 to 768.
TEST(EngineGathering, CostsWhatItSays) {
  EngineOptions options = StageThree();
  options.accumulation = 1;
  const auto bytes = [&] { return PredictMemory(LayoutOf(UnitsWithBias(), options, 2), options, 0); };
  const auto gathered = [&] { return GatheredBytes(LayoutOf(UnitsWithBias(), options, 2), options); };
  const auto sent = [&] { return PredictDataBytes(LayoutOf(UnitsWithBias(), options, 2), options, 0); };
  EXPECT_EQ(bytes().parameters, 4 * 384 * 4);
  EXPECT_EQ(gathered(), 2 * 768 * 4);
  EXPECT_EQ(sent(), (4 + 3 + 4) * 384 * 4);
  options.prefetch_bucket_size = 2 * 768;
  EXPECT_EQ(gathered(), 3 * 768 * 4);
  options.prefetch_bucket_size = 2 * 768 - 1;
  EXPECT_EQ(gathered(), 2 * 768 * 4);
  options.max_reuse_distance = 2 * 2 * 768;  // the last three
  EXPECT_EQ(gathered(), 3 * 768 * 4);
  EXPECT_EQ(sent(), (4 + 1 + 4) * 384 * 4);
  options.max_live_parameters = 3 * 768 - 1;  // the last two
  EXPECT_EQ(gathered(), 2 * 768 * 4);
  EXPECT_EQ(sent(), (4 + 2 + 4) * 384 * 4);
  options = StageThree();
  options.accumulation = 1;
  options.persistence_threshold = 65;
  EXPECT_EQ(bytes().parameters, 4 * (320 + 128) * 4);
  EXPECT_EQ(bytes().moments, 4 * (320 + 64) * 8);
  EXPECT_EQ(gathered(), 2 * 640 * 4);
  EXPECT_EQ(sent(), (4 * (320 + 64) + (4 + 3) * 320 + 4 * 64) * 4);
}

TEST(EngineGathering, HoldsWhatIsPredictedAndNoMore) {
  ForEachPartitionAndWorld([](EngineOptions options, int world) {
    for (int i = 0; i < 5; ++i) {
      options.prefetch_bucket_size = i == 1 || i == 4 ? 2500 : 0;
      options.persistence_threshold = i >= 2 ? 71 : 0;
      options.max_reuse_distance = i == 3 ? 3000 : 0;
      options.max_live_parameters = i == 4 ? LargestUnit(OddUnits(), options, world) : 0;
      SCOPED_TRACE(testing::Describe(options, world));
      RunOnRanks({.world_size = world}, [&](comm::Communicator& communicator) {
        device::MemoryLedger& ledger = communicator.device().ledger();
        const int64_t before = ledger.now(Use::kCommunication);
        ASSERT_TRUE(testing::Train(communicator, OddUnits(), options, {.steps = 2}).ok());
        for (Use use : {Use::kParameters, Use::kGradients, Use::kMoments, Use::kCommunication}) {
          EXPECT_EQ(ledger.peak(use), ledger.predicted(use)) << device::Name(use);
        }
        EXPECT_EQ(ledger.now(Use::kCommunication), before);
      });
    }
  });
}

TEST(EngineGathering, ABoundBelowTheLargestUnitIsRefusedByName) {
  std::vector<UnitSpec> units = EqualUnits(3, 640);
  units[1].parameters[0].shape = {1000};
  EngineOptions options = StageThree();
  options.max_live_parameters = 1023;
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    const absl::Status status = Engine::Create(communicator, units, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("max_live_parameters is 1023, but unit unit.1 alone gathers 1024"), std::string::npos)
        << status;
  });
  options.max_live_parameters = 1024;
  RunOnRanks({.world_size = 2},
             [&](comm::Communicator& communicator) { EXPECT_TRUE(Engine::Create(communicator, units, options).ok()); });
}

TEST(EngineGathering, UnitsAtOnceBeyondTheBoundAreRefusedByName) {
  EngineOptions options = StageThree();
  options.max_live_parameters = 3 * 640 - 1;
  options.prefetch = 3;
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    auto engine = Engine::Create(communicator, EqualUnits(4, 640), options);
    ASSERT_TRUE(engine.ok());
    EXPECT_TRUE((*engine)->Unshard(0, Pass::kForward).ok());
    EXPECT_TRUE((*engine)->Unshard(1, Pass::kForward).ok());
    const absl::Status status = (*engine)->Unshard(2, Pass::kForward);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("no room to gather unit unit.2"), std::string::npos) << status;
    EXPECT_TRUE((*engine)->Reshard(0).ok());
    EXPECT_TRUE((*engine)->Unshard(2, Pass::kForward).ok());
  });
}

// Unit 2 needs so much room that unit 1, which is on its way, gives way, and has none even then.
TEST(EngineGathering, ADroppedEngineWaitsForWhatGaveWay) {
  std::vector<UnitSpec> units = EqualUnits(3, 640);
  units[2].parameters[0].shape = {1792};
  EngineOptions options = StageThree();
  options.max_live_parameters = 2000;
  backends::InProcessOptions slow;
  slow.faults.max_delay = absl::Milliseconds(100);
  RunOnRanks({.world_size = 2, .backend = slow}, [&](comm::Communicator& communicator) {
    auto engine = Engine::Create(communicator, units, options);
    ASSERT_TRUE(engine.ok());
    EXPECT_TRUE((*engine)->Unshard(0, Pass::kForward).ok());
    EXPECT_FALSE((*engine)->Unshard(2, Pass::kForward).ok());
    engine->reset();
    for (const device::Span& operation : communicator.device().recorder().Flight()) EXPECT_NE(operation.ended_ns, 0);
  });
}

// Rank 1 stands still at unit 0; rank 0 computes on, with what was gathered ahead: two units, in forward and in backward order.
TEST(EngineGathering, ABucketOfUnitsIsOnItsWayWhileOneComputes) {
  for (Pass pass : {Pass::kForward, Pass::kBackward}) {
    std::promise<void> ahead;
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      EngineOptions options = StageThree();
      options.prefetch_bucket_size = 2 * 640;
      auto engine = Engine::Create(communicator, EqualUnits(5, 640), options);
      ASSERT_TRUE(engine.ok());
      const auto unit = [&](int i) { return pass == Pass::kForward ? i : 4 - i; };
      EXPECT_TRUE((*engine)->Unshard(unit(0), pass).ok());
      if (communicator.rank() == 1) {
        EXPECT_EQ(ahead.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
      }
      EXPECT_TRUE((*engine)->Reshard(unit(0)).ok());
      for (int i : {1, 2}) {
        EXPECT_TRUE((*engine)->Unshard(unit(i), pass).ok());
        EXPECT_TRUE((*engine)->Reshard(unit(i)).ok());
      }
      if (communicator.rank() == 0) ahead.set_value();
    });
  }
}

TEST(EngineGathering, AUnitUsedTwiceIsGatheredForEachUseUnlessItIsKept) {
  std::vector<UnitSpec> units = EqualUnits(3, 640);
  units[1].uses = 2;
  const auto schedule = [](int) { return Schedule{{0, 1, 2, 1}, {0, 1, 2, 1}}; };
  for (int world : {1, 2, 4}) {
    // Padded to 640 on one and two ranks, to 768 on four.
    const int64_t padded = world == 4 ? 768 : 640;
    // Forward 0 1 2 1, backward (1) 2 1 0; with unit 1 kept over unit 2; with all kept.
    for (const auto& [keep, distance, gathers] :
         {std::tuple<bool, int64_t, int>(false, 0, 7), {false, padded, 5}, {true, 0, 3}}) {
      EngineOptions options = StageThree();
      options.keep_parameters = keep;
      options.max_reuse_distance = distance;
      SCOPED_TRACE(testing::Describe(options, world));
      const auto runs = ExpectReference(units, options, {.world_size = world}, {.steps = 4, .schedule = schedule});
      const int64_t elements = 2 * (gathers + 3) * padded / world * (world - 1);
      EXPECT_EQ(runs[0].data_bytes.back(), elements * 4);
    }
  }
}

TEST(EngineGathering, AUnitUsedTwiceAndTiedParametersGiveTheSameWithEveryOption) {
  std::vector<UnitSpec> units = OddUnits();
  units[2].uses = 2;
  const auto schedule = [](int) { return Schedule{{0, 1, 2, 3, 2, 4, 5}, {0, 1, 2, 3, 2, 4, 5}}; };
  ForEachPartitionAndWorld([&](EngineOptions options, int world) {
    for (int64_t threshold : {0, 71}) {
      for (int64_t distance : {int64_t{0}, int64_t{2000}, kHuge}) {
        options.persistence_threshold = threshold;
        options.max_reuse_distance = distance;
        options.prefetch_bucket_size = 2500;
        options.max_live_parameters = distance == 2000 ? 2 * LargestUnit(units, options, world) : 0;
        ExpectReference(units, options, {.world_size = world}, {.steps = 3, .schedule = schedule});
      }
    }
  });
}

TEST(EngineGathering, RecomputedUnitsChangeNoBitAndCostWhatIsPredicted) {
  std::vector<UnitSpec> units = OddUnits();
  units[1].recomputed = units[2].recomputed = units[4].recomputed = true;
  ForEachPartitionAndWorld([&](EngineOptions options, int world) {
    for (int64_t bucket : {int64_t{0}, int64_t{2500}, kHuge}) {
      for (int64_t distance : {int64_t{0}, int64_t{2000}, kHuge}) {
        options.prefetch_bucket_size = bucket;
        options.max_reuse_distance = distance;
        options.persistence_threshold = bucket == 2500 ? 71 : 0;
        options.max_live_parameters = distance == 2000 ? 2 * LargestUnit(units, options, world) : 0;
        Expect(units, options, world);
      }
    }
  });
}

absl::Status Evaluate(Engine& engine, std::vector<int> units) {
  for (int u : units) {
    ZS_RETURN_IF_ERROR(engine.Unshard(u, Pass::kForward));
    ZS_RETURN_IF_ERROR(engine.parameters(u).status());
    ZS_RETURN_IF_ERROR(engine.Reshard(u));
  }
  return absl::OkStatus();
}

// Units in one order, then in another; evaluation in between; a step that is broken off where it hurts.
TEST(EngineGathering, OtherOrdersEvaluationAndAbandonedStepsLeaveNothingStale) {
  const auto schedule = [](int step) {
    return step % 2 == 0 ? Schedule{{0, 1, 2, 3, 4, 5}, {5, 3, 1, 0, 2}} : Schedule{{5, 4, 3, 2, 1, 0}, {0, 1, 2, 3, 4, 5}};
  };
  const auto disturb = [](Engine& engine, int step) -> absl::Status {
    ZS_RETURN_IF_ERROR(Evaluate(engine, {0, 1, 2, 3, 4, 5}));
    if (step == 1) ZS_RETURN_IF_ERROR(Evaluate(engine, {3, 1}));
    if (step == 2) {
      for (int u : {0, 1}) ZS_RETURN_IF_ERROR(engine.Unshard(u, Pass::kForward));
      return engine.Abandon();
    }
    if (step == 3) {
      ZS_RETURN_IF_ERROR(Evaluate(engine, {0, 1, 2, 3, 4, 5}));
      ZS_RETURN_IF_ERROR(engine.Unshard(5, Pass::kBackward));
      ZS_RETURN_IF_ERROR(engine.GradientsReady(5));
      return engine.Abandon();
    }
    return absl::OkStatus();
  };
  ForEachPartitionAndWorld([&](EngineOptions options, int world) {
    options.prefetch = 2;
    for (int i = 0; i < 4; ++i) {
      options.persistence_threshold = i == 0 ? 0 : 71;
      options.prefetch_bucket_size = i == 1 ? kHuge : 0;
      options.max_reuse_distance = i >= 2 ? 3000 : 0;
      options.max_live_parameters = i == 3 ? 3 * LargestUnit(OddUnits(), options, world) : 0;
      ExpectReference(OddUnits(), options, {.world_size = world},
                      {.steps = 4, .schedule = schedule, .before_step = disturb});
    }
  });
}

}  // namespace
}  // namespace zeroshard::zero
