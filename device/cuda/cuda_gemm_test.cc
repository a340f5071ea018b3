// Products of device/cuda, on the double of cuBLASLt: that each is what gemm.h says, and who chooses its algorithm.
#include "zeroshard/device/cuda/cuda_gemm.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/doubles/control.h"

namespace zeroshard::device::cuda {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<CudaDevice> Make(int ordinal = 0) { return MakeCudaDevice({.ordinal = ordinal, .piece_bytes = 0}).value(); }

struct Case {
  DType input, output, bias;
};

class CudaGemmTest : public ::testing::TestWithParam<Case> {};

TEST_P(CudaGemmTest, IsTheProductWithinRounding) {
  constexpr int64_t kM = 5, kK = 12, kN = 7;
  auto device = Make();
  TestArrays arrays(*device);
  for (int way = 0; way < 16; ++way) {
    const GemmSpec spec{.m = kM,
                        .k = kK,
                        .n = kN,
                        .transpose_a = (way & 1) != 0,
                        .transpose_b = (way & 2) != 0,
                        .bias = (way & 4) != 0,
                        .accumulate = (way & 8) != 0,
                        .input = GetParam().input,
                        .output = GetParam().output,
                        .bias_dtype = GetParam().bias};
    const auto a = Rounded(RandomFloats(kM * kK, 1), spec.input), b = Rounded(RandomFloats(kK * kN, 2), spec.input);
    const auto c = Rounded(RandomFloats(kM * kN, 3), spec.output), bias = Rounded(RandomFloats(kN, 4), spec.bias_dtype);
    const Array out = arrays.Make(c, spec.output);
    auto gemm = device->PlanGemm(spec);
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    (*gemm)->Run(arrays.stream(), arrays.Make(a, spec.input), arrays.Make(b, spec.input), out,
                 spec.bias ? In(arrays.Make(bias, spec.bias_dtype)) : In());
    const std::vector<float> got = arrays.ReadWide(out);
    const double unit = 1e-6 + HalfUlp(spec.output);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        double want = spec.accumulate ? c[i * kN + j] : 0;
        if (spec.bias) want += bias[j];
        double magnitude = std::abs(want);
        for (int64_t l = 0; l < kK; ++l) {
          const double x = spec.transpose_a ? a[l * kM + i] : a[i * kK + l];
          const double y = spec.transpose_b ? b[j * kK + l] : b[l * kN + j];
          want += x * y;
          magnitude += std::abs(x * y);
        }
        ASSERT_NEAR(got[i * kN + j], want, unit * magnitude) << way << ": " << i << ", " << j;
      }
    }
  }
  EXPECT_TRUE(device->status().ok()) << device->status();
}

constexpr DType kF32 = DType::kFloat32, kBf16 = DType::kBfloat16, kF16 = DType::kFloat16;
INSTANTIATE_TEST_SUITE_P(DTypes, CudaGemmTest,
                         ::testing::Values(Case{kF32, kF32, kF32}, Case{kBf16, kBf16, kBf16}, Case{kBf16, kF32, kBf16},
                                           Case{kBf16, kBf16, kF32}, Case{kF16, kF16, kF16}, Case{kF16, kF32, kF16}));

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
