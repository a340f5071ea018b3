// On device/cuda's doubles, whose products have a choice.
#include "zeroshard/trainer/product_choices.h"

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "zeroshard/device/cuda/doubles/test_cuda_device.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

constexpr device::GemmSpec kProduct{.m = 4, .k = 8, .n = 2}, kOther{.m = 4, .k = 8, .n = 3};

void OnTwoGpus(const std::function<void(comm::Communicator&)>& rank) {
  zero::testing::RunOnRanks({.world_size = 2, .make_device = [] { return device::cuda::doubles::MakeTestCudaDevice(); }},
                            rank);
}

TEST(ProductChoices, AreRankZerosOnEveryRank) {
  OnTwoGpus([](comm::Communicator& communicator) {
    device::Device& device = communicator.device();
    const auto gemm = device.PlanGemm(kProduct);
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    const std::string usual = device.ProductChoices();
    std::string other = usual;
    other[other.size() - 2] = '1';  // a digit of the algorithm
    ASSERT_NE(other, usual);
    ASSERT_TRUE(device.TakeProductChoices(communicator.rank() == 0 ? other : usual).ok());
    const absl::Status shared = ShareProductChoices(communicator);
    EXPECT_TRUE(shared.ok()) << shared;
    EXPECT_EQ(device.ProductChoices(), other);
  });
}

TEST(ProductChoices, OfAnotherModelAreRefusedWithTheRanks) {
  OnTwoGpus([](comm::Communicator& communicator) {
    const auto gemm = communicator.device().PlanGemm(communicator.rank() == 0 ? kProduct : kOther);
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    const absl::Status shared = ShareProductChoices(communicator);
    if (communicator.rank() == 0) {
      EXPECT_TRUE(shared.ok()) << shared;
    } else {
      EXPECT_TRUE(absl::IsFailedPrecondition(shared)) << shared;
      EXPECT_TRUE(absl::StrContains(shared.message(), "rank 1, from rank 0: no algorithm was chosen")) << shared;
    }
  });
}

TEST(ProductChoices, OfCoresAreNone) {
  zero::testing::RunOnRanks({.world_size = 2}, [](comm::Communicator& communicator) {
    EXPECT_EQ(communicator.device().ProductChoices(), "");
    EXPECT_TRUE(ShareProductChoices(communicator).ok());
    EXPECT_EQ(communicator.wire().sent_bytes(comm::Traffic::kControl), 0);
    EXPECT_TRUE(absl::IsFailedPrecondition(communicator.device().TakeProductChoices("cuBLASLt 1 on sm_80\n")));
  });
}

}  // namespace
}  // namespace zeroshard::trainer
