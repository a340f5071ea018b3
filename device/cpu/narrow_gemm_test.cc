// Products of bf16 and fp16, each way that there is to plan them, against fp64.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cpu/cpu_gemm.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/late/late_device.h"

namespace zeroshard::device {
namespace {

using Floats = std::vector<float>;

struct Case {
  DType dtype;
  Bfloat16Products products;
  int64_t m, k, n;
  int threads;
  bool late;
};

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(Name(c.dtype)) + (c.products == Bfloat16Products::kWidened ? "_widened_" : "_") + std::to_string(c.m) +
         "x" + std::to_string(c.k) + "x" + std::to_string(c.n) + "_threads" + std::to_string(c.threads) +
         (c.late ? "_late" : "");
}

std::unique_ptr<Device> MakeDevice(const Case& c) {
  if (c.late) return MakeLateDevice({.threads = c.threads});
  return MakeCpuDevice({.threads = c.threads});
}

class NarrowGemmTest : public testing::TestWithParam<Case> {
 protected:
  const Case case_ = GetParam();
  const Floats a_ = Values(case_.m * case_.k, 1), b_ = Values(case_.k * case_.n, 2);
  const Floats c_ = Values(case_.m * case_.n, 3), bias_ = Values(case_.n, 4);

  Floats Values(int64_t elements, uint32_t seed) const { return Rounded(RandomFloats(elements, seed), case_.dtype); }

  Floats Run(const GemmSpec& spec) {
    const std::unique_ptr<Device> device = MakeDevice(case_);
    TestArrays arrays(*device);
    FirstError error;
    auto gemm = PlanCpuGemm(spec, case_.threads, *device, error, case_.products);
    EXPECT_TRUE(gemm.ok()) << gemm.status();
    const Array c = arrays.Make(c_, spec.output), bias = spec.bias ? arrays.Make(bias_, spec.bias_dtype) : Array();
    (*gemm)->Run(arrays.stream(), arrays.Make(a_, spec.input), arrays.Make(b_, spec.input), c, bias);
    Floats result = arrays.ReadWide(c);
    EXPECT_TRUE(error.status().ok()) << error.status();
    return result;
  }

  // Each element rounded once, after a sum in fp32.
  void ExpectTheProduct(const GemmSpec& spec) {
    const Floats got = Run(spec);
    for (int64_t i = 0; i < spec.m; i += 1 + spec.m / 13) {
      for (int64_t j = 0; j < spec.n; ++j) {
        double want = 0, magnitude = 1;
        for (int64_t l = 0; l < spec.k; ++l) {
          const double product = double(a_[spec.transpose_a ? l * spec.m + i : i * spec.k + l]) *
                                 b_[spec.transpose_b ? j * spec.k + l : l * spec.n + j];
          want += product;
          magnitude += std::abs(product);
        }
        if (spec.bias) want += bias_[j];
        if (spec.accumulate) want += c_[i * spec.n + j];
        const double sums = 6e-8 * (std::sqrt(double(spec.k)) + 4) * (magnitude + 8);
        ASSERT_NEAR(got[i * spec.n + j], want, sums + HalfUlp(spec.output) * std::abs(want)) << i << ", " << j;
      }
    }
  }
};

TEST_P(NarrowGemmTest, IsTheProductRoundedOnce) {
  for (const DType output : {DType::kFloat32, case_.dtype}) {
    for (int flags = 0; flags < 16; ++flags) {
      const GemmSpec spec{.m = case_.m,
                          .k = case_.k,
                          .n = case_.n,
                          .transpose_a = (flags & 1) != 0,
                          .transpose_b = (flags & 2) != 0,
                          .bias = (flags & 4) != 0,
                          .accumulate = (flags & 8) != 0,
                          .input = case_.dtype,
                          .output = output,
                          .bias_dtype = output};
      SCOPED_TRACE(flags);
      ExpectTheProduct(spec);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(NarrowGemmTest, TwoRunsGiveTheSameBits) {
  const GemmSpec spec{.m = case_.m, .k = case_.k, .n = case_.n, .transpose_b = true, .input = case_.dtype};
  EXPECT_EQ(Run(spec), Run(spec));
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto native = Bfloat16Products::kNative, widened = Bfloat16Products::kWidened;
  const bool has_native = FindBfloat16Products() == native;
  const auto add = [&](int64_t m, int64_t k, int64_t n, int threads, bool late) {
    if (has_native) cases.push_back({DType::kBfloat16, native, m, k, n, threads, late});
    cases.push_back({DType::kBfloat16, widened, m, k, n, threads, late});
    cases.push_back({DType::kFloat16, widened, m, k, n, threads, late});
  };
  add(1, 1, 1, 1, false);
  add(3, 5, 7, 1, false);
  add(33, 130, 65, 2, true);
  add(300, 129, 270, 1, false);   // more than one block, and rests
  add(256, 1024, 128, 1, false);  // as a layer's, forward and backward
  add(130, 1100, 140, 2, false);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, NarrowGemmTest, testing::ValuesIn(Cases()), NameOf);

TEST(NarrowGemmEdges, ThePlansByShapeAgreeWithPlainOnes) {
  // 1024 rows take the inner products, 1023 of them with one row left out do not: rows must agree within rounding.
  if (FindBfloat16Products() != Bfloat16Products::kNative) GTEST_SKIP() << "oneDNN multiplies no bf16 on this CPU";
  const auto device = MakeCpuDevice();
  TestArrays arrays(*device);
  constexpr int64_t kRows = 1024, kSide = 128;
  const Array a = arrays.Make(RandomFloats(kRows * kSide, 1), DType::kBfloat16);
  const Array b = arrays.Make(RandomFloats(kSide * kSide, 2), DType::kBfloat16);
  const auto run = [&](int64_t rows) {
    const Array c = arrays.Empty(rows * kSide);
    auto gemm = device->PlanGemm({.m = rows, .k = kSide, .n = kSide, .transpose_b = true, .input = DType::kBfloat16});
    (*gemm)->Run(arrays.stream(), a.Slice(0, rows * kSide), b, c);
    return arrays.Read(c);
  };
  const Floats many = run(kRows), few = run(64);
  for (size_t i = 0; i < few.size(); ++i) ASSERT_NEAR(many[i], few[i], 1e-4);
}

TEST(NarrowGemmEdges, InfAndNanReachTheirRowAndSubnormalsCount) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    const auto device = MakeCpuDevice();
    TestArrays arrays(*device);
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const float tiny = 0x1p-20f;  // subnormal in fp16
    auto gemm = device->PlanGemm({.m = 3, .k = 2, .n = 2, .input = dtype});
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    const Array c = arrays.Empty(6);
    (*gemm)->Run(arrays.stream(), arrays.Make(Floats{inf, 1, 1, nan, tiny, 0}, dtype),
                 arrays.Make(Floats{1, 2, 3, 4}, dtype), c);
    const Floats got = arrays.Read(c);
    EXPECT_TRUE(std::isinf(got[0]) && std::isinf(got[1])) << Name(dtype);
    EXPECT_TRUE(std::isnan(got[2]) && std::isnan(got[3])) << Name(dtype);
    EXPECT_EQ(got[4], tiny);
    EXPECT_EQ(got[5], 2 * tiny);
  }
}

TEST(NarrowGemmEdges, MixedDtypesAreRefusedByName) {
  const auto device = MakeCpuDevice();
  const absl::Status status =
      device->PlanGemm({.m = 2, .k = 2, .n = 2, .input = DType::kBfloat16, .output = DType::kFloat16}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("fp16"), std::string::npos) << status;
}

TEST(NarrowGemmEdges, AWidenedProductsScratchIsBoundedAndGivenBack) {
  const auto device = MakeCpuDevice();
  auto gemm = device->PlanGemm({.m = 1024, .k = 1536, .n = 50304, .transpose_b = true, .input = DType::kFloat16});
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  EXPECT_LT(device->ledger().now(Use::kActivations), 16 << 20);
  gemm->reset();
  EXPECT_EQ(device->ledger().now(Use::kActivations), 0);
}

}  // namespace
}  // namespace zeroshard::device
