// Products of device/cuda, on the double of cuBLASLt: what they take and refuse, and who chooses their algorithms. What they give:
// planned_kernels_test.cc.
#include "zeroshard/device/cuda/cuda_gemm.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/device/attention.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/doubles/control.h"

namespace zeroshard::device::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<CudaDevice> Make(int ordinal = 0) { return MakeCudaDevice({.ordinal = ordinal, .piece_bytes = 0}).value(); }

TEST(CudaGemm, TakesNoRows) {
  auto device = Make();
  TestArrays arrays(*device);
  auto gemm = device->PlanGemm({.m = 0, .k = 4, .n = 4}).value();
  gemm->Run(arrays.stream(), Array(), arrays.Make(RandomFloats(16, 1)), Array());
  EXPECT_EQ(device->PlanGemm({.m = 1, .k = 0, .n = 1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device->PlanGemm({.m = 1, .k = 1, .n = 1, .input = DType::kFloat64}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(CudaGemmChoices, OfRankZeroAreEveryRanks) {
  auto zero = Make(0), one = Make(1);
  const GemmSpec spec{.m = 4, .k = 8, .n = 2};
  ASSERT_TRUE(zero->PlanGemm(spec).ok());
  const std::string choices = zero->ProductChoices();
  EXPECT_THAT(choices, HasSubstr("cuBLASLt "));
  EXPECT_THAT(choices, HasSubstr("product [4 x 8] x [8 x 2], fp32 to fp32\t"));
  // Before the first plan, and after it.
  EXPECT_TRUE(one->TakeProductChoices(choices).ok());
  ASSERT_TRUE(one->PlanGemm(spec).ok());
  EXPECT_EQ(one->ProductChoices(), choices);
  EXPECT_TRUE(one->TakeProductChoices(choices).ok());
}

TEST(CudaGemmChoices, OfAnotherLibraryOrModelAreRefused) {
  auto zero = Make(0), one = Make(1);
  ASSERT_TRUE(zero->PlanGemm({.m = 4, .k = 8, .n = 2}).ok());
  ASSERT_TRUE(one->PlanGemm({.m = 4, .k = 8, .n = 3}).ok());
  const std::string choices = zero->ProductChoices(), own = one->ProductChoices();
  EXPECT_THAT(std::string(one->TakeProductChoices(choices).message()), HasSubstr("[8 x 3]"));
  EXPECT_THAT(std::string(one->TakeProductChoices("cuBLASLt 1 on sm_80\n").message()),
              HasSubstr("same cards and libraries"));
  EXPECT_THAT(std::string(one->TakeProductChoices(own + "product\tzz\n").message()),
              HasSubstr("no product with its algorithm"));
  EXPECT_EQ(one->TakeProductChoices("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(one->ProductChoices(), own);
}

// Where cuDNN does not work on one rank alone, its attention would have other bits than all others'.
TEST(CudaGemmChoices, SayWhoDoesTheAttention) {
  auto device = Make();
  ASSERT_TRUE(device->PlanGemm({.m = 4, .k = 8, .n = 2}).ok());
  AttentionSpec spec{.batch = 1, .heads = 2, .context = 8, .head_width = 16};
  ASSERT_TRUE(device->PlanAttention(spec).ok());
  EXPECT_THAT(device->ProductChoices(), Not(HasSubstr("attention"))) << "cuDNN has none in fp32";
  spec.dtype = DType::kBfloat16;
  ASSERT_TRUE(device->PlanAttention(spec).ok());
  const std::string choices = device->ProductChoices();
  EXPECT_THAT(choices, HasSubstr("\nattention [1, 2, 8, 16] in bf16\tour kernels\n"));
  EXPECT_TRUE(device->TakeProductChoices(choices).ok());
  const absl::Status told = device->TakeProductChoices(absl::StrReplaceAll(choices, {{"our kernels", "cuDNN"}}));
  EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
  EXPECT_THAT(std::string(told.message()),
              HasSubstr("attention [1, 2, 8, 16] in bf16 was done by cuDNN, and on this rank is by our kernels"));
  EXPECT_EQ(device->ProductChoices(), choices);
}

// As ranks' heuristics might differ: the plan runs by the taken algorithm, whose sums are fp32, and was run by it when it was taken.
TEST(CudaGemmChoices, ThatAreTakenReachPlansThatWereMade) {
  doubles::SetHeuristic(1);
  auto other = Make(0);
  const GemmSpec spec{.m = 3, .k = 500, .n = 5};
  const auto with = [&](Device& device, Gemm& gemm) {
    TestArrays arrays(device);
    const Array out = arrays.Empty(15);
    gemm.Run(arrays.stream(), arrays.Make(RandomFloats(1500, 1)), arrays.Make(RandomFloats(2500, 2)), out);
    return arrays.Read(out);
  };
  const auto in_fp32 = other->PlanGemm(spec).value();
  doubles::SetHeuristic(0);
  auto device = Make(1);
  const auto gemm = device->PlanGemm(spec).value();
  EXPECT_NE(with(*device, *gemm), with(*other, *in_fp32));
  ASSERT_NE(device->ProductChoices(), other->ProductChoices());
  ASSERT_TRUE(device->TakeProductChoices(other->ProductChoices()).ok());
  EXPECT_EQ(device->ProductChoices(), other->ProductChoices());
  // Were it run by that for the first time now, the double would end the test (doubles/loading.h).
  const auto communication = device->MakeStream(StreamKind::kCommunication);
  bool arrived = false;
  doubles::EnqueuePolled(CudaStream::Of(*communication).native(), "nccl", {}, [&](const AddressMap&) { return arrived; });
  EXPECT_EQ(with(*device, *gemm), with(*other, *in_fp32));
  arrived = true;
  communication->Synchronize();
}

// Another shape's algorithm, or bytes that are none.
TEST(CudaGemmChoices, ThatAreNoneOfTheProductsAreRefused) {
  auto device = Make();
  ASSERT_TRUE(device->PlanGemm({.m = 4, .k = 8, .n = 2}).ok());
  const std::string own = device->ProductChoices();
  for (const size_t digit : {size_t{0}, size_t{17}}) {
    std::string choices = own;
    char& changed = choices[choices.rfind('\t') + 1 + digit];
    changed = changed == '9' ? '8' : '9';
    const absl::Status taken = device->TakeProductChoices(choices);
    EXPECT_TRUE(absl::IsFailedPrecondition(taken)) << taken;
    EXPECT_THAT(std::string(taken.message()), HasSubstr("chosen for the product [4 x 8] x [8 x 2], fp32 to fp32 is none"));
    EXPECT_EQ(device->ProductChoices(), own);
  }
}

}  // namespace
}  // namespace zeroshard::device::cuda
