#include "zeroshard/device/cpu/cpu_gemm.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::device {
namespace {

class Operand {
 public:
  Operand(Device& device, int64_t elements, uint32_t seed)
      : buffer_(device.Allocate(elements * 4, Use::kData, "operand").value()), elements_(elements) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < elements; ++i) data(device)[i] = uniform(random);
  }
  float* data(Device& device) const { return static_cast<float*>(device.HostAddress(array())); }
  Array array() const { return buffer_.array(DType::kFloat32).Slice(0, elements_); }

 private:
  Buffer buffer_;
  int64_t elements_;
};

// [m, n] in fp64, with the sum of magnitudes beside it, which bounds the error.
struct Naive {
  double sum, magnitude;
};
Naive Element(const GemmSpec& s, const float* a, const float* b, int64_t i, int64_t j) {
  Naive out{0, 0};
  for (int64_t l = 0; l < s.k; ++l) {
    const double x = s.transpose_a ? a[l * s.m + i] : a[i * s.k + l];
    const double y = s.transpose_b ? b[j * s.k + l] : b[l * s.n + j];
    out.sum += x * y;
    out.magnitude += std::abs(x * y);
  }
  return out;
}

using Shape = std::tuple<int, int, int>;
class CpuGemmTest : public testing::TestWithParam<std::tuple<Shape, bool, bool, bool, bool, int>> {};

TEST_P(CpuGemmTest, IsTheProductWithinRounding) {
  const auto [shape, transpose_a, transpose_b, bias, accumulate, threads] = GetParam();
  const auto [m, k, n] = shape;
  const GemmSpec spec{.m = m,
                      .k = k,
                      .n = n,
                      .transpose_a = transpose_a,
                      .transpose_b = transpose_b,
                      .bias = bias,
                      .accumulate = accumulate};
  auto device = MakeCpuDevice({.threads = threads});
  auto stream = device->MakeStream(StreamKind::kCompute);
  Operand a(*device, m * k, 1), b(*device, k * n, 2), c(*device, m * n, 3), d(*device, n, 4);
  const std::vector<float> before(c.data(*device), c.data(*device) + m * n);
  auto gemm = device->PlanGemm(spec);
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  (*gemm)->Run(*stream, a.array(), b.array(), c.array(), bias ? d.array() : Array());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      Naive want = Element(spec, a.data(*device), b.data(*device), i, j);
      if (bias) want.sum += d.data(*device)[j];
      if (accumulate) want.sum += before[i * n + j];
      const double bound = 6e-8 * (std::sqrt(double(k)) + 4) * (want.magnitude + 2);
      ASSERT_NEAR(c.data(*device)[i * n + j], want.sum, bound) << i << ", " << j;
    }
  }
  EXPECT_TRUE(device->status().ok());
}

INSTANTIATE_TEST_SUITE_P(Shapes, CpuGemmTest,
                         testing::Combine(testing::Values(Shape{1, 1, 1}, Shape{3, 5, 7}, Shape{64, 64, 64},
                                                          Shape{33, 130, 65}, Shape{128, 384, 96}),
                                          testing::Bool(), testing::Bool(), testing::Bool(), testing::Bool(),
                                          testing::Values(1, 2)));

TEST(CpuGemmEdges, NoRowsIsNoWork) {
  auto device = MakeCpuDevice();
  auto stream = device->MakeStream(StreamKind::kCompute);
  Operand b(*device, 12, 1);
  auto gemm = device->PlanGemm({.m = 0, .k = 3, .n = 4});
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  (*gemm)->Run(*stream, Array(), b.array(), Array());
}

TEST(CpuGemmEdges, RefusesSizesByName) {
  auto device = MakeCpuDevice();
  const absl::Status status = device->PlanGemm({.m = 4, .k = 0, .n = 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("[4 x 0] x [0 x 2]"), std::string::npos) << status;
}

TEST(CpuGemmEdges, RefusesIntegersAsUnimplemented) {
  auto device = MakeCpuDevice();
  const absl::Status status = device->PlanGemm({.m = 4, .k = 4, .n = 2, .input = DType::kInt32}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

TEST(CpuGemmEdges, FilesScratchUnderActivationsAndGivesItBack) {
  auto device = MakeCpuDevice();
  auto gemm = device->PlanGemm({.m = 256, .k = 384, .n = 1152, .transpose_b = true});
  ASSERT_TRUE(gemm.ok());
  gemm->reset();
  EXPECT_EQ(device->ledger().now(Use::kActivations), 0);
}

TEST(CpuGemmBits, DoNotDependOnWhereOperandsLie) {
  auto device = MakeCpuDevice();
  auto stream = device->MakeStream(StreamKind::kCompute);
  constexpr int64_t kM = 48, kK = 200, kN = 72;
  Operand a(*device, kM * kK + 16, 1), b(*device, kK * kN + 16, 2), c(*device, kM * kN, 3),
      shifted(*device, kM * kN + 16, 3);
  auto gemm = device->PlanGemm({.m = kM, .k = kK, .n = kN});
  ASSERT_TRUE(gemm.ok());
  (*gemm)->Run(*stream, a.array().Slice(0, kM * kK), b.array().Slice(0, kK * kN), c.array());
  std::memmove(a.data(*device) + 5, a.data(*device), 4 * kM * kK);
  std::memmove(b.data(*device) + 3, b.data(*device), 4 * kK * kN);
  (*gemm)->Run(*stream, a.array().Slice(5, kM * kK), b.array().Slice(3, kK * kN), shifted.array().Slice(1, kM * kN));
  const void *plain = c.data(*device), *moved = shifted.data(*device) + 1;
  EXPECT_EQ(std::memcmp(plain, moved, 4 * kM * kN), 0);
}

}  // namespace
}  // namespace zeroshard::device
