#include "zeroshard/zero/parameter_store.h"

#include <gtest/gtest.h>

#include "zeroshard/device/recorder.h"
#include "zeroshard/zero/testing/ranks.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

// As where the optimizer's pass fails after the gathers of what it has written have left.
TEST(ParameterStore, SettlesWhatAnUpdateThatEndedHalfDoneGathers) {
  backends::InProcessOptions slow;
  slow.faults.max_delay = absl::Milliseconds(100);
  for (const Partition partition : {Partition::kFlat, Partition::kTensor}) {
    EngineOptions options;
    options.stage = 2;
    options.partition = partition;
    testing::RunOnRanks({.world_size = 2, .backend = slow}, [&](comm::Communicator& communicator) {
      const auto layout = Layout::Create(testing::EqualUnits(3, 1000), LayoutOptionsOf(options, 2));
      ASSERT_TRUE(layout.ok()) << layout.status();
      const auto compute = communicator.device().MakeStream(device::StreamKind::kCompute);
      auto store = ParameterStore::Create(communicator, *layout, options, *compute);
      ASSERT_TRUE(store.ok()) << store.status();
      (*store)->BeginUpdate();
      (*store)->WrittenBefore(layout->trainable_sections());
      (*store)->Settle();
      compute->Synchronize();
      const std::vector<device::Span> operations = communicator.device().recorder().Flight();
      EXPECT_FALSE(operations.empty());
      for (const device::Span& operation : operations) EXPECT_NE(operation.ended_ns, 0);
    });
  }
}

}  // namespace
}  // namespace zeroshard::zero
