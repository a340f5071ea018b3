// The order of what moves besides a plain step (engine_late_test.cc), by events alone: offload, the gathering of what is updated,
// world-invariant sums, hybrid groups. On device/late, or on device/cuda over the doubles.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/left_out_waits.h"
#include "zeroshard/zero/testing/toy_options.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using device::DType;
using device::LateOrder;
using testing::EqualUnits;
using testing::ExpectReference;
using testing::ForEachStageAndPartition;
using testing::OddUnits;

class EngineOrder : public ::testing::TestWithParam<LateOrder> {
 protected:
  void ExpectBitsWithoutARace(const EngineOptions& options, int world_size) {
    const LateOrder order = GetParam();
    const auto make_device = [order] { return device::MakeOrderedDevice({.order = order, .seed = 7}); };
    ExpectReference(OddUnits(), options, {.world_size = world_size, .make_device = make_device}, {.steps = 2});
  }
  bool lazy() const { return GetParam() == LateOrder::kLazy; }
};

EngineOptions Options(int stage, Partition partition) {
  EngineOptions options = testing::ToyOptions(stage, partition);
  options.reduce_bucket_size = 1000;
  return options;
}

EngineOptions Offloaded(int stage, Partition partition, OffloadTarget target) {
  EngineOptions options = Options(stage, partition);
  options.accumulation = 2;
  options.sub_group_size = 700;
  options.offload_optimizer = {.target = target, .folder = ::testing::TempDir()};
  return options;
}

TEST_P(EngineOrder, OfOffload) {
  ForEachStageAndPartition(1, [&](int stage, Partition partition) {
    for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
      EngineOptions options = Offloaded(stage, partition, target);
      options.dtype = lazy() ? DType::kFloat32 : DType::kBfloat16;
      options.offload_ratio = GetParam() == LateOrder::kRandom ? 0.6 : 1;
      if (stage == 3 && options.offload_ratio == 1) {
        options.offload_parameters = {.target = lazy() ? OffloadTarget::kHost : OffloadTarget::kFile,
                                      .folder = ::testing::TempDir()};
      }
      ExpectBitsWithoutARace(options, 2);
    }
  });
}

TEST_P(EngineOrder, OfTheGatheringOfWhatIsUpdated) {
  ForEachStageAndPartition(1, [&](int stage, Partition partition) {
    for (const int64_t bucket : {0, 1, 700, 1'000'000}) {
      for (const bool all_gather : {true, false}) {
        EngineOptions options = Options(stage, partition);
        options.persistence_threshold = stage == 3 ? 404 : 0;
        options.allgather_bucket_size = bucket;
        options.allgather_partitions = all_gather;
        options.overlap = bucket != 700;
        ExpectBitsWithoutARace(options, 2);
      }
    }
  });
}

TEST_P(EngineOrder, OfWorldInvariantSums) {
  ForEachStageAndPartition(0, [&](int stage, Partition partition) {
    for (const bool overlap : {true, false}) {
      EngineOptions options = Options(stage, partition);
      options.world_invariant = true;
      options.accumulation = 4;
      options.reduce_bucket_size = 700;
      options.dtype = overlap ? DType::kFloat32 : DType::kBfloat16;
      options.overlap = overlap;
      ExpectBitsWithoutARace(options, 2);
      if (stage == 0) continue;
      options.offload_optimizer.target = OffloadTarget::kHost;
      options.sub_group_size = 700;
      options.offload_ratio = partition == Partition::kTensor ? 0.6 : 1;
      ExpectBitsWithoutARace(options, 2);
    }
  });
}

TEST_P(EngineOrder, OfHybridGroups) {
  int turn = GetParam() == LateOrder::kRandom ? 1 : 0;
  ForEachStageAndPartition(1, [&](int stage, Partition partition) {
    EngineOptions options = Options(stage, partition);
    options.shard_size = 2;
    options.reduce_bucket_size = 300;
    options.overlap = turn++ % 2 == 0;
    options.dtype = turn % 3 == 0 ? DType::kFloat32 : DType::kBfloat16;
    ExpectBitsWithoutARace(options, 4);
  });
}

INSTANTIATE_TEST_SUITE_P(Orders, EngineOrder, ::testing::Values(LateOrder::kLazy, LateOrder::kOneFirst, LateOrder::kRandom));

void ExpectEachWaitIsMissed(const EngineOptions& options, int world_size) {
  testing::ExpectEachWaitIsMissed({.world_size = world_size}, [&](comm::Communicator& communicator) {
    return testing::Train(communicator, EqualUnits(3, 500), options, {.steps = 2}).status();
  });
}

// Where ranks are joined in process, in later stages the host has waited itself for what streams wait for. Those are looked at over NCCL's
// double.
int LastStage(int in_process) { return testing::OverNccl() ? 3 : in_process; }

TEST(EngineOrderWithoutAWait, IsCaughtInEveryStageAndPartition) {
  if (!testing::OverNccl()) GTEST_SKIP() << "engine_late_test has the stages that can be looked at in process";
  ForEachStageAndPartition(0, [](int stage, Partition partition) {
    SCOPED_TRACE(std::string(Name(partition)) + " " + std::to_string(stage));
    ExpectEachWaitIsMissed(Options(stage, partition), 2);
  });
}

TEST(EngineOrderWithoutAWait, IsCaughtUnderOffload) {
  for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
    for (int stage = 1; stage <= LastStage(1); ++stage) {
      SCOPED_TRACE(std::string(Name(target)) + " " + std::to_string(stage));
      const Partition partition = target == OffloadTarget::kHost ? Partition::kFlat : Partition::kTensor;
      ExpectEachWaitIsMissed(Offloaded(stage, testing::OverNccl() ? partition : Partition::kFlat, target), 2);
    }
  }
}

// Beside parameters that stay in device memory: nothing there waits for a file.
TEST(EngineOrderWithoutAWait, IsCaughtWhereParametersAreOffloaded) {
  if (!testing::OverNccl()) GTEST_SKIP() << "the host has waited for gathers itself";
  std::vector<model::UnitSpec> units = EqualUnits(3, 500);
  units.push_back({.name = "small", .parameters = {{.name = "small.weight", .shape = {150}}}});
  for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
    SCOPED_TRACE(Name(target));
    EngineOptions options = Offloaded(3, Partition::kFlat, target);
    options.offload_parameters = options.offload_optimizer;
    options.persistence_threshold = 200;
    testing::ExpectEachWaitIsMissed({.world_size = 2}, [&](comm::Communicator& communicator) {
      return testing::Train(communicator, units, options, {.steps = 2}).status();
    });
  }
}

TEST(EngineOrderWithoutAWait, IsCaughtWhereWhatIsUpdatedIsGathered) {
  for (const bool all_gather : {true, false}) {
    EngineOptions options = Options(1, Partition::kFlat);
    options.allgather_bucket_size = 700;
    options.allgather_partitions = all_gather;
    ExpectEachWaitIsMissed(options, 2);
  }
}

TEST(EngineOrderWithoutAWait, IsCaughtInWorldInvariantSums) {
  for (int stage = 0; stage <= LastStage(2); ++stage) {
    SCOPED_TRACE(stage);
    EngineOptions options = Options(stage, Partition::kFlat);
    options.world_invariant = true;
    options.accumulation = 4;
    ExpectEachWaitIsMissed(options, 2);
  }
}

TEST(EngineOrderWithoutAWait, IsCaughtInHybridGroups) {
  for (int stage = 1; stage <= LastStage(2); ++stage) {
    SCOPED_TRACE(stage);
    EngineOptions options = Options(stage, Partition::kFlat);
    options.shard_size = 2;
    ExpectEachWaitIsMissed(options, 4);
  }
}

}  // namespace
}  // namespace zeroshard::zero
