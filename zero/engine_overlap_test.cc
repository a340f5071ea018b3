// Communication goes on while the device computes: shown by the order of events, never by a clock. One rank stands still at a point of
// the step until the other one has come further; an engine that waited for it there would hang.

#include <gtest/gtest.h>

#include <future>

#include "absl/time/time.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using testing::EqualUnits;
using testing::OddUnits;
using testing::RunOnRanks;

EngineOptions Options(int stage) {
  EngineOptions options;
  options.stage = stage;
  options.reduce_bucket_size = 128;
  return options;
}

absl::Status Backward(Engine& engine, int unit) {
  ZS_RETURN_IF_ERROR(engine.Unshard(unit, Pass::kBackward));
  ZS_ASSIGN_OR_RETURN(const auto targets, engine.gradients(unit));
  engine.compute().device().elementwise().Fill(engine.compute(), targets[0].array, 1);
  ZS_RETURN_IF_ERROR(engine.GradientsReady(unit));
  return engine.Reshard(unit);
}

// Whether `done` comes within a time that only a hang exceeds.
bool Comes(std::future<void> done) { return done.wait_for(std::chrono::seconds(20)) == std::future_status::ready; }

TEST(EngineOverlap, BackwardGoesOnWhileABucketIsInFlight) {
  for (int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    std::promise<void> ahead;
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      auto engine = Engine::Create(communicator, EqualUnits(3, 1000), Options(stage));
      ASSERT_TRUE(engine.ok());
      // Rank 1 joins the reductions of unit 2 only when rank 0 has had the backward of unit 1, too.
      if (communicator.rank() == 1) {
        EXPECT_TRUE(Comes(ahead.get_future()));
      }
      EXPECT_TRUE(Backward(**engine, 2).ok());
      EXPECT_GT((*engine)->reductions(), 0) << "full buckets leave at once";
      EXPECT_TRUE(Backward(**engine, 1).ok());
      if (communicator.rank() == 0) ahead.set_value();
      EXPECT_TRUE(Backward(**engine, 0).ok());
      EXPECT_TRUE((*engine)->Step().ok());
    });
  }
}

TEST(EngineOverlap, BackwardGoesOnWhileSumsCrossBetweenGroups) {
  for (int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    std::promise<void> ahead[2];
    RunOnRanks({.world_size = 4}, [&](comm::Communicator& communicator) {
      EngineOptions options = Options(stage);
      options.reduce_bucket_size = 1000;
      options.shard_size = 2;
      auto engine = Engine::Create(communicator, EqualUnits(5, 1000), options);
      ASSERT_TRUE(engine.ok());
      // Ranks 2 and 3 reduce nothing before ranks 0 and 1 have ended their backward, whose gradients' memory was used again meanwhile.
      const int rank = communicator.rank();
      if (rank >= 2) {
        EXPECT_TRUE(Comes(ahead[rank - 2].get_future()));
      }
      for (int unit = 4; unit >= 0; --unit) EXPECT_TRUE(Backward(**engine, unit).ok());
      EXPECT_GT((*engine)->reductions(), 0);
      if (rank < 2) ahead[rank].set_value();
      const absl::Status stepped = (*engine)->Step();
      EXPECT_EQ(stepped, absl::OkStatus()) << stepped;
    });
  }
}

TEST(EngineOverlap, WithoutItStagesZeroAndOneReduceAfterTheLastBackward) {
  for (int stage : {0, 1}) {
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      EngineOptions options = Options(stage);
      options.overlap = false;
      auto engine = Engine::Create(communicator, EqualUnits(3, 1000), options);
      ASSERT_TRUE(engine.ok());
      for (int u : {2, 1, 0}) EXPECT_TRUE(Backward(**engine, u).ok());
      EXPECT_EQ((*engine)->reductions(), 0);
      EXPECT_TRUE((*engine)->Step().ok());
      EXPECT_GT((*engine)->reductions(), 0);
    });
  }
}

TEST(EngineOverlap, TheNextUnitIsGatheredWhileOneComputes) {
  std::promise<void> ahead;
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    auto engine = Engine::Create(communicator, EqualUnits(4, 1000), Options(3));
    ASSERT_TRUE(engine.ok());
    EXPECT_TRUE((*engine)->Unshard(0, Pass::kForward).ok());
    // Rank 1 computes unit 0 for ever; rank 0 has unit 1 nevertheless.
    if (communicator.rank() == 1) {
      EXPECT_TRUE(Comes(ahead.get_future()));
    }
    EXPECT_TRUE((*engine)->Reshard(0).ok());
    EXPECT_TRUE((*engine)->Unshard(1, Pass::kForward).ok());
    if (communicator.rank() == 0) ahead.set_value();
    EXPECT_TRUE((*engine)->Reshard(1).ok());
  });
}

TEST(EngineOverlap, ADelayingTransportThatPoisonsChangesNoBit) {
  backends::InProcessOptions slow;
  slow.mapped = false;
  slow.host.poison_outputs = true;
  slow.faults.max_delay = absl::Microseconds(200);
  for (int i = 0; i < 20; ++i) {
    slow.faults.seed = static_cast<uint64_t>(i);
    EngineOptions options;
    options.stage = i % 4;
    options.partition = i % 3 == 0 ? Partition::kTensor : Partition::kFlat;
    options.overlap = i % 5 != 0;
    options.accumulation = 1 + i % 2;
    options.reduce_bucket_size = 1000;
    options.optimizer.groups = {{}, {}};
    options.dtype = i % 7 < 4 ? device::DType::kFloat32 : device::DType::kBfloat16;
    testing::ExpectReference(OddUnits(), options, {.world_size = 2 + i % 2, .backend = slow}, {.steps = 2});
  }
}

// Units of other sizes are noticed by the communicator, of one size by the engine.
TEST(EngineOverlap, RanksThatRunDifferentUnitsAreTold) {
  for (int64_t elements : {1000, 5000}) {
    for (int stage : {0, 1, 2}) {
      RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
        std::vector<model::UnitSpec> units = EqualUnits(2, 1000);
        units[1].parameters[0].shape = {elements};
        auto engine = Engine::Create(communicator, units, Options(stage));
        ASSERT_TRUE(engine.ok());
        absl::Status status = Backward(**engine, communicator.rank());
        if (status.ok()) status = (*engine)->Step();
        if (status.ok()) status = (*engine)->Result().status();
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
        EXPECT_FALSE((*engine)->Step().ok());
      });
    }
  }
}

// Each is told both ranks' calls, with their sequence number.
TEST(EngineOverlap, RanksThatRunAUnitADifferentNumberOfTimesAreTold) {
  for (int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      std::vector<model::UnitSpec> units = EqualUnits(3, 1000);
      units[1].uses = 2;
      EngineOptions options = Options(stage);
      options.accumulation = 2;
      auto engine = Engine::Create(communicator, units, options);
      ASSERT_TRUE(engine.ok());
      absl::Status status;
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        for (int unit : {2, 1, 1, 0}) {
          const bool left_out = communicator.rank() == 1 && unit == 1;
          if (status.ok() && !left_out) status = Backward(**engine, unit);
        }
      }
      if (status.ok()) status = (*engine)->Step();
      if (status.ok()) status = (*engine)->Result().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      const std::string message(status.message());
      for (const char* word : {"rank 0 called ", "rank 1 called ", " #"}) {
        EXPECT_NE(message.find(word), std::string::npos) << status;
      }
    });
  }
}

}  // namespace
}  // namespace zeroshard::zero
