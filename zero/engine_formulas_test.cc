// The ledgers of memory and wire against the formulas, to the byte.

#include <gtest/gtest.h>

#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using device::Use;
using testing::EqualUnits;
using testing::OddUnits;
using testing::RunOnRanks;
using testing::Train;
using testing::TrainingRun;

EngineOptions Options(int stage, Partition partition) {
  EngineOptions options;
  options.stage = stage;
  options.partition = partition;
  options.reduce_bucket_size = 1000;
  options.optimizer.groups = {{}, {}};
  return options;
}

void ForEachStageAndPartition(const std::function<void(EngineOptions)>& check) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) check(Options(stage, partition));
  }
}

void ExpectMemory(const std::vector<model::UnitSpec>& units, const EngineOptions& options, int world_size) {
  SCOPED_TRACE(testing::Describe(options, world_size));
  RunOnRanks({.world_size = world_size}, [&](comm::Communicator& communicator) {
    device::MemoryLedger& ledger = communicator.device().ledger();
    const int64_t before = ledger.now(Use::kCommunication);
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(communicator, units, options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const MemoryBytes bytes = PredictMemory((*engine)->layout(), options, communicator.rank());
    EXPECT_EQ(ledger.now(Use::kParameters), bytes.parameters);
    EXPECT_EQ(ledger.now(Use::kGradients), bytes.gradients);
    EXPECT_EQ(ledger.now(Use::kMasterWeights), bytes.master_weights);
    EXPECT_EQ(ledger.now(Use::kMoments), bytes.moments);
    EXPECT_EQ(ledger.now(Use::kCommunication) - before, bytes.communication);
    EXPECT_EQ(ledger.predicted(Use::kParameters), bytes.parameters);
    EXPECT_EQ(ledger.predicted(Use::kMoments), bytes.moments);
    engine->reset();
    for (Use use : {Use::kParameters, Use::kGradients, Use::kMasterWeights, Use::kMoments}) EXPECT_EQ(ledger.now(use), 0);
    EXPECT_EQ(ledger.now(Use::kCommunication), before);
  });
}

TEST(EngineMemory, IsTheFormulasInEveryStagePartitionAndWorld) {
  for (int world = 1; world <= 5; ++world) {
    ForEachStageAndPartition([&](EngineOptions options) {
      for (bool overlap : {false, true}) {
        options.overlap = overlap;
        options.keep_parameters = overlap;
        options.prefetch = 2;
        ExpectMemory(OddUnits(), options, world);
      }
    });
  }
}

TEST(EngineMemory, IsTheFormulasInTwoByteDTypes) {
  for (int world : {1, 3}) {
    ForEachStageAndPartition([&](EngineOptions options) {
      for (int accumulation : {1, 2}) {
        options.dtype = accumulation == 1 ? device::DType::kFloat16 : device::DType::kBfloat16;
        options.accumulation = accumulation;
        options.communication_dtype = {};
        ExpectMemory(OddUnits(), options, world);
        options.communication_dtype = device::DType::kFloat32;
        ExpectMemory(OddUnits(), options, world);
      }
    });
  }
}

TEST(EngineMemory, OptimizersHoldTheirStateOnly) {
  for (const auto& [kind, momentum] :
       {std::pair(optim::Kind::kAdam, 0.0), {optim::Kind::kSgd, 0.9}, {optim::Kind::kSgd, 0.0}}) {
    EngineOptions options = Options(2, Partition::kFlat);
    options.optimizer.kind = kind;
    options.optimizer.momentum = momentum;
    ExpectMemory(OddUnits(), options, 3);
  }
}

// The table of the design in plain numbers: four units of 6,400 elements on two ranks.
TEST(EngineMemory, IsTheDesignsTable) {
  absl::StatusOr<Layout> layout = Layout::Create(EqualUnits(4, 6400), {.world_size = 2});
  ASSERT_TRUE(layout.ok());
  const int64_t psi = 25600;
  EngineOptions options;
  const auto total = [&](int stage) {
    options.stage = stage;
    const MemoryBytes m = PredictMemory(*layout, options, 0);
    return m.parameters + m.gradients + m.moments;
  };
  EXPECT_EQ(total(0), 16 * psi);
  EXPECT_EQ(total(1), 8 * psi + 8 * psi / 2);
  EXPECT_EQ(total(2), 4 * psi + 12 * psi / 2);
  EXPECT_EQ(total(3), 16 * psi / 2);
  EXPECT_EQ(GatheredBytes(*layout, options), 2 * 6400 * 4);
  options.reduce_bucket_size = 128;
  EXPECT_EQ(InFlightBytes(*layout, options), 2 * 6400 * 4);
  options.reduce_bucket_size = 20000;
  EXPECT_EQ(InFlightBytes(*layout, options), 20000 / 128 * 128 * 4);
}

TEST(EngineMemory, CountsBeyondThirtyTwoBitsWithoutAllocatingThem) {
  const int64_t psi = 3'000'000'000;
  absl::StatusOr<Layout> layout = Layout::Create(EqualUnits(1, psi), {.world_size = 2});
  ASSERT_TRUE(layout.ok());
  EngineOptions options;
  for (int stage = 0; stage <= 3; ++stage) {
    options.stage = stage;
    const MemoryBytes m = PredictMemory(*layout, options, 0);
    EXPECT_EQ(m.parameters, stage < 3 ? 4 * psi : 2 * psi);
    EXPECT_EQ(m.moments, stage < 1 ? 8 * psi : 4 * psi);
    EXPECT_EQ(PredictDataBytes(*layout, options, 0), 2 * psi / 2 * 4);  // one unit: stage 3 keeps it for backward
  }
}

TEST(EngineMemory, IsTheDesignsTableInMixedPrecision) {
  absl::StatusOr<Layout> layout = Layout::Create(EqualUnits(4, 6400), {.world_size = 2});
  ASSERT_TRUE(layout.ok());
  const int64_t psi = 25600;
  EngineOptions options;
  options.dtype = device::DType::kBfloat16;
  const auto total = [&](int stage, int accumulation) {
    options.stage = stage;
    options.accumulation = accumulation;
    const MemoryBytes m = PredictMemory(*layout, options, 0);
    return m.parameters + m.gradients + m.master_weights + m.moments;
  };
  EXPECT_EQ(total(0, 1), 16 * psi);
  EXPECT_EQ(total(1, 1), 4 * psi + 12 * psi / 2);
  EXPECT_EQ(total(2, 1), 2 * psi + 14 * psi / 2);
  EXPECT_EQ(total(3, 1), 16 * psi / 2);
  EXPECT_EQ(total(0, 4), 18 * psi);
  EXPECT_EQ(total(1, 4), 6 * psi + 12 * psi / 2);
  EXPECT_EQ(total(2, 4), 2 * psi + 16 * psi / 2);
  EXPECT_EQ(total(3, 4), 18 * psi / 2);
  EXPECT_EQ(GatheredBytes(*layout, options), 2 * 6400 * 2);
  options.reduce_bucket_size = 128;
  EXPECT_EQ(InFlightBytes(*layout, options), 2 * 6400 * 2);
}

void ExpectWire(const EngineOptions& options, int world) {
  SCOPED_TRACE(testing::Describe(options, world));
  RunOnRanks({.world_size = world}, [&](comm::Communicator& communicator) {
    const absl::StatusOr<TrainingRun> run = Train(communicator, OddUnits(), options, {.steps = 3});
    ASSERT_TRUE(run.ok()) << run.status();
    const absl::StatusOr<Layout> layout =
        Layout::Create(OddUnits(), {.partition = options.partition, .owner = options.owner, .world_size = world});
    const int64_t predicted = PredictDataBytes(*layout, options, communicator.rank());
    for (int64_t sent : run->data_bytes) EXPECT_EQ(sent, predicted) << "rank " << communicator.rank();
  });
}

TEST(EngineWire, IsTheFormulasInTwoByteDTypes) {
  for (int world : {2, 3}) {
    ForEachStageAndPartition([&](EngineOptions options) {
      options.dtype = world == 2 ? device::DType::kBfloat16 : device::DType::kFloat16;
      for (int accumulation : {1, 3}) {
        options.accumulation = accumulation;
        options.communication_dtype = {};
        ExpectWire(options, world);
        options.communication_dtype = device::DType::kFloat32;
        ExpectWire(options, world);
      }
    });
  }
}

TEST(EngineWire, IsTheFormulasOverStagePartitionAndEveryOption) {
  for (int world : {1, 2, 3, 5}) {
    ForEachStageAndPartition([&](EngineOptions options) {
      for (int accumulation : {1, 3}) {
        for (bool reduce_scatter : {true, false}) {
          for (bool keep : {false, true}) {
            if (keep && options.stage < 3) continue;
            options.accumulation = accumulation;
            options.reduce_scatter = reduce_scatter;
            options.keep_parameters = keep;
            ExpectWire(options, world);
          }
        }
      }
    });
  }
}

// Ψ = 25,600 on four ranks: f = 3/4.
TEST(EngineWire, IsTheDesignsFormulas) {
  absl::StatusOr<Layout> layout = Layout::Create(EqualUnits(4, 6400), {.world_size = 4});
  ASSERT_TRUE(layout.ok());
  const int64_t psi_f = 25600 * 3;  // bytes of Ψf
  EngineOptions options;
  options.accumulation = 2;
  const auto sent = [&](int stage) {
    options.stage = stage;
    return PredictDataBytes(*layout, options, 0);
  };
  EXPECT_EQ(sent(0), 2 * psi_f);
  EXPECT_EQ(sent(1), 2 * psi_f);
  EXPECT_EQ(sent(2), 3 * psi_f);
  EXPECT_EQ(sent(3), 2 * (3 * psi_f - psi_f / 4));  // the unit that ends forward is gathered once
  options.keep_parameters = true;
  EXPECT_EQ(sent(3), 2 * (2 * psi_f));
  options.reduce_scatter = false;
  EXPECT_EQ(sent(1), 3 * psi_f);
  EXPECT_EQ(sent(2), 5 * psi_f);
}

TEST(EngineWire, ATiedParameterIsGatheredForEachEnd) {
  absl::StatusOr<Layout> layout = Layout::Create(OddUnits(), {.world_size = 2});
  ASSERT_TRUE(layout.ok());
  EngineOptions options;
  options.stage = 3;
  const int wte = layout->parameters()[*layout->Find("wte")].section;
  EXPECT_EQ(GathersPerMicroBatch(*layout, options, wte), 2);
  options.keep_parameters = true;
  EXPECT_EQ(GathersPerMicroBatch(*layout, options, wte), 2);
}

TEST(EngineWire, ARecomputedUnitIsGatheredOnceMoreUnlessItIsKept) {
  std::vector<model::UnitSpec> units = OddUnits();
  units[1].recomputed = true;
  units[2].recomputed = true;
  for (int prefetch : {0, 1, 2, 5}) {
    for (bool keep : {false, true}) {
      EngineOptions options = Options(3, Partition::kFlat);
      options.prefetch = prefetch;
      options.keep_parameters = keep;
      const Layout plain = *Layout::Create(OddUnits(), {.world_size = 3});
      const Layout layout = *Layout::Create(units, {.world_size = 3});
      for (int s = 0; s < static_cast<int>(layout.sections().size()); ++s) {
        const std::vector<int>& users = layout.sections()[s].units;
        const bool again = !keep && users.size() == 1 && layout.units()[users[0]].recomputed;
        EXPECT_EQ(GathersPerMicroBatch(layout, options, s), GathersPerMicroBatch(plain, options, s) + again);
      }
      SCOPED_TRACE(testing::Describe(options, 3));
      RunOnRanks({.world_size = 3}, [&](comm::Communicator& communicator) {
        const absl::StatusOr<TrainingRun> run = Train(communicator, units, options, {.steps = 3});
        ASSERT_TRUE(run.ok()) << run.status();
        const int64_t predicted = PredictDataBytes(layout, options, communicator.rank());
        for (int64_t sent : run->data_bytes) EXPECT_EQ(sent, predicted) << "rank " << communicator.rank();
      });
    }
  }
}

TEST(EngineWire, ReductionsAreNoMoreThanBucketsAndUnits) {
  for (int64_t bucket : {1000, 4096, 10000, 1000000}) {
    for (int stage : {1, 2, 3}) {
      RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
        EngineOptions options = Options(stage, Partition::kFlat);
        options.reduce_bucket_size = bucket;
        const std::vector<model::UnitSpec> units = EqualUnits(6, 5000);
        absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(communicator, units, options);
        ASSERT_TRUE(engine.ok()) << engine.status();
        const testing::ToyModel model(units);
        device::Device& device = communicator.device();
        absl::StatusOr<device::Buffer> loss = device.Allocate(8, Use::kActivations, "loss");
        ASSERT_TRUE(testing::RunMicroBatch(**engine, model, {0, 1, 2, 3, 4, 5}, {communicator.rank()},
                                           loss->array(device::DType::kFloat64))
                        .ok());
        ASSERT_TRUE((*engine)->Step().ok());
        const int64_t psi = (*engine)->layout().trainable_elements();
        const int64_t rounded = std::max<int64_t>(128, bucket / 128 * 128);
        EXPECT_LE((*engine)->reductions(), (psi + rounded - 1) / rounded + 6);
        EXPECT_GE((*engine)->reductions(), (psi + rounded - 1) / rounded);
      });
    }
  }
}

}  // namespace
}  // namespace zeroshard::zero
