#include "zeroshard/zero/tensor_access.h"

#include <gtest/gtest.h>

#include <vector>

#include "zeroshard/device/late/late_device.h"
#include "zeroshard/zero/testing/ranks.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

// The second piece cannot be read, when the first is on its way to the caller's memory.
TEST(TensorAccess, HasLeftTheCallersMemoryWhenItGivesAnError) {
  const auto late = [] { return device::MakeLateDevice({.order = device::LateOrder::kLazy}); };
  testing::RunOnRanks({.world_size = 1, .make_device = late}, [](comm::Communicator& communicator) {
    const EngineOptions options;
    const auto layout = Layout::Create(testing::EqualUnits(1, kStagingElements + 1), LayoutOptionsOf(options, 1));
    ASSERT_TRUE(layout.ok()) << layout.status();
    const auto compute = communicator.device().MakeStream(device::StreamKind::kCompute);
    auto ranks = RankGroups::Create(communicator, options);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    auto access = TensorAccess::Create(**ranks, *layout, options, *compute);
    ASSERT_TRUE(access.ok()) << access.status();
    const auto source = [&](int /*section*/, Range part, device::Array to) -> absl::Status {
      if (part.first > 0) return absl::DataLossError("the test says so");
      communicator.device().elementwise().Fill(*compute, to, 7);
      return absl::OkStatus();
    };
    std::vector<float> values(kStagingElements + 1);
    EXPECT_TRUE(absl::IsDataLoss((*access)->Read(0, source, /*scale=*/1, values)));
    EXPECT_EQ(values.front(), 7);
  });
}

}  // namespace
}  // namespace zeroshard::zero
