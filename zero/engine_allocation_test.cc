// From the third step on nothing is allocated: neither on the heap by our code, on any thread, nor from the device.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/vendor_scope.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

// Sanitizers bring a malloc of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZS_COUNTS_MALLOC 0
#else
#define ZS_COUNTS_MALLOC 1
#endif

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;

}  // namespace

#if ZS_COUNTS_MALLOC
namespace {

void Count() {
  if (counting.load(std::memory_order_relaxed) && !zeroshard::device::VendorScope::Active()) allocations.fetch_add(1);
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t bytes);                      // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT(bugprone-reserved-identifier)

// operator new calls these.
void* malloc(size_t bytes) {
  Count();
  return __libc_malloc(bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}

}  // extern "C"
#endif

namespace zeroshard::zero {
namespace {

using testing::OddUnits;

// Two ranks, `steps` steps; counts what is allocated from the third on.
void ExpectNone(const EngineOptions& options) {
  SCOPED_TRACE(testing::Describe(options, 2));
  allocations = 0;
  testing::RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    const std::vector<model::UnitSpec> units = OddUnits();
    const testing::ToyModel model(units);
    auto engine = Engine::Create(communicator, units, options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    auto loss = communicator.device().Allocate(8, device::Use::kActivations, "loss");
    const testing::Schedule schedule = testing::EveryUnit(units, options.accumulation);
    int64_t charges = 0;
    for (int step = 0; step < 5; ++step) {
      if (step == 2) {
        ASSERT_TRUE(communicator.Barrier().Wait().ok());
        counting = true;
        charges = communicator.device().ledger().charges();
      }
      for (int m = 0; m < options.accumulation; ++m) {
        ASSERT_TRUE(testing::RunMicroBatch(**engine, model, schedule[m], {communicator.rank(), step, m},
                                           loss->array(device::DType::kFloat64))
                        .ok());
      }
      ASSERT_TRUE((*engine)->Step().ok());
      ASSERT_TRUE((*engine)->Result().ok());
    }
    ASSERT_TRUE(communicator.Barrier().Wait().ok());
    counting = false;
    EXPECT_EQ(communicator.device().ledger().charges(), charges);
  });
  EXPECT_EQ(allocations, 0);
}

TEST(EngineAllocation, IsSeenWhereThereIsOne) {
  if (!ZS_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizer has a malloc of its own";
  allocations = 0;
  counting = true;
  const std::vector<int> one(1000);
  counting = false;
  EXPECT_EQ(allocations, 1) << one.size();
}

TEST(EngineAllocation, IsNoneUnderOffload) {
  if (!ZS_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizer has a malloc of its own";
  for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
    EngineOptions options;
    options.stage = 2;
    options.dtype = device::DType::kBfloat16;
    options.accumulation = 2;
    options.clip = 1;
    options.optimizer.groups = {{}, {}};
    options.offload_optimizer = {.target = target, .folder = ::testing::TempDir()};
    options.sub_group_size = 2000;
    options.offload_ratio = 0.8;
    ExpectNone(options);
    options.stage = 3;
    options.offload_ratio = 1;
    options.offload_parameters = options.offload_optimizer;
    ExpectNone(options);
  }
}

TEST(EngineAllocation, IsNoneFromTheThirdStepOn) {
  if (!ZS_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizer has a malloc of its own";
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      for (bool overlap : {true, false}) {
        EngineOptions options;
        options.stage = stage;
        options.partition = partition;
        options.overlap = overlap;
        options.accumulation = 2;
        options.reduce_bucket_size = 500;
        options.clip = 1;
        options.optimizer.groups = {{}, {}};
        ExpectNone(options);
        options.dtype = device::DType::kBfloat16;
        ExpectNone(options);
        options.dtype = device::DType::kFloat16;
        options.communication_dtype = device::DType::kFloat32;
        options.optimizer.loss_scale = {.kind = device::LossScaleKind::kDynamic, .initial_power = 18, .hysteresis = 1};
        ExpectNone(options);
      }
    }
  }
}

TEST(EngineAllocation, IsNoneHoweverUpdatedParametersAreGathered) {
  if (!ZS_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizer has a malloc of its own";
  for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
    for (int64_t bucket : {0, 500, 100000}) {
      EngineOptions options;
      options.partition = partition;
      options.allgather_bucket_size = bucket;
      options.allgather_partitions = bucket == 0;
      options.optimizer.groups = {{}, {}};
      ExpectNone(options);
    }
  }
}

TEST(EngineAllocation, IsNoneWhereMicroBatchesAreAddedByATree) {
  if (!ZS_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizer has a malloc of its own";
  for (int stage = 0; stage <= 3; ++stage) {
    EngineOptions options;
    options.stage = stage;
    options.world_invariant = true;
    options.accumulation = 4;
    options.reduce_bucket_size = 500;
    options.optimizer.groups = {{}, {}};
    ExpectNone(options);
  }
}

TEST(EngineAllocation, IsNoneHoweverUnitsAreGathered) {
  if (!ZS_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizer has a malloc of its own";
  for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
    EngineOptions options;
    options.stage = 3;
    options.partition = partition;
    options.accumulation = 2;
    options.prefetch_bucket_size = 2000;
    options.persistence_threshold = 71;
    options.max_reuse_distance = 3000;
    options.optimizer.groups = {{}, {}};
    ExpectNone(options);
    options.max_live_parameters = 2048;
    ExpectNone(options);
  }
}

}  // namespace
}  // namespace zeroshard::zero
