// Products, GELU behind them and attention as the device plans them, beside device/cpu's: on a GPU cuBLASLt's and, in two bytes, cuDNN's.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "zeroshard/device/attention.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/cuda/kernel_pair.h"
#include "zeroshard/device/gelu_gemm.h"

namespace zeroshard::device::cuda {
namespace {

constexpr DType kF32 = DType::kFloat32, kBf16 = DType::kBfloat16, kF16 = DType::kFloat16;

using PlannedKernels = KernelTest;

std::unique_ptr<Device> MakeCuda() { return MakeCudaDevice({.piece_bytes = 0}).value(); }

struct Types {
  DType input, output, bias;
};
constexpr Types kTypes[] = {{kF32, kF32, kF32},   {kBf16, kBf16, kBf16}, {kBf16, kF32, kBf16},
                            {kBf16, kBf16, kF32}, {kF16, kF16, kF16},    {kF16, kF32, kF16}};

// Against sums in fp64 of what the operands hold.
void CheckProduct(Device& device, const GemmSpec& spec) {
  TestArrays arrays(device);
  const auto a = Rounded(RandomFloats(spec.m * spec.k, 1), spec.input);
  const auto b = Rounded(RandomFloats(spec.k * spec.n, 2), spec.input);
  const auto c = Rounded(RandomFloats(spec.m * spec.n, 3), spec.output);
  const auto bias = Rounded(RandomFloats(spec.n, 4), spec.bias_dtype);
  const Array out = arrays.Make(c, spec.output);
  auto gemm = device.PlanGemm(spec);
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  (*gemm)->Run(arrays.stream(), arrays.Make(a, spec.input), arrays.Make(b, spec.input), out,
               spec.bias ? In(arrays.Make(bias, spec.bias_dtype)) : In());
  const std::vector<float> got = arrays.ReadWide(out);
  const double unit = 1e-6 + 0x1p-24 * static_cast<double>(spec.k) + HalfUlp(spec.output);
  for (int64_t i = 0; i < spec.m; ++i) {
    for (int64_t j = 0; j < spec.n; ++j) {
      double want = spec.accumulate ? c[i * spec.n + j] : 0;
      if (spec.bias) want += bias[j];
      double magnitude = std::abs(want);
      for (int64_t l = 0; l < spec.k; ++l) {
        const double x = spec.transpose_a ? a[l * spec.m + i] : a[i * spec.k + l];
        const double y = spec.transpose_b ? b[j * spec.k + l] : b[l * spec.n + j];
        want += x * y;
        magnitude += std::abs(x * y);
      }
      ASSERT_NEAR(got[i * spec.n + j], want, unit * magnitude) << i << ", " << j;
    }
  }
}

TEST_P(PlannedKernels, ProductsAreWithinRounding) {
  const auto device = MakeCuda();
  for (const Types& types : kTypes) {
    for (int way = 0; way < 16; ++way) {
      for (const bool large : {false, true}) {
        SCOPED_TRACE(testing::Message() << Name(types.input).data() << " to " << Name(types.output).data() << ", way "
                                        << way);
        CheckProduct(*device, {.m = large ? 136 : 5,
                               .k = large ? 96 : 12,
                               .n = large ? 72 : 7,
                               .transpose_a = (way & 1) != 0,
                               .transpose_b = (way & 2) != 0,
                               .bias = (way & 4) != 0,
                               .accumulate = (way & 8) != 0,
                               .input = types.input,
                               .output = types.output,
                               .bias_dtype = types.bias});
      }
    }
  }
  EXPECT_TRUE(device->status().ok()) << device->status();
}

// X and Y of one device.
struct BeforeAndAfter {
  std::vector<float> x, y;
};

BeforeAndAfter RunGelu(Device& device, const GemmSpec& spec) {
  TestArrays arrays(device);
  auto gemm = device.PlanGeluGemm(spec);
  EXPECT_TRUE(gemm.ok()) << gemm.status();
  const Array x = arrays.Empty(spec.m * spec.n, spec.output), y = arrays.Empty(spec.m * spec.n, spec.output);
  (*gemm)->Run(arrays.stream(), arrays.Make(RandomFloats(spec.m * spec.k, 1), spec.input),
               arrays.Make(RandomFloats(spec.k * spec.n, 2), spec.input),
               arrays.Make(RandomFloats(spec.n, 3), spec.bias_dtype), x, y);
  return {arrays.ReadWide(x), arrays.ReadWide(y)};
}

TEST_P(PlannedKernels, GeluBehindAProductIsTheCpus) {
  const auto cuda = MakeCuda(), cpu = MakeCpuDevice();
  for (const DType dtype : kActivations) {
    SCOPED_TRACE(Name(dtype).data());
    const GemmSpec spec{
        .m = 40, .k = 48, .n = 64, .transpose_b = true, .bias = true, .input = dtype, .output = dtype, .bias_dtype = dtype};
    const BeforeAndAfter got = RunGelu(*cuda, spec), want = RunGelu(*cpu, spec);
    // A sum of 48 products and a bias, rounded; a vendor's hyperbolic tangent is good for about 2^-10.
    const double sum = 1e-4 + 2 * HalfUlp(dtype), tangent = dtype == kF32 ? 0 : 0x1p-10;
    for (size_t i = 0; i < want.x.size(); ++i) {
      ASSERT_NEAR(got.x[i], want.x[i], sum * (1 + std::abs(want.x[i]))) << i;
      ASSERT_NEAR(got.y[i], want.y[i], 2 * sum * (1 + std::abs(want.x[i])) + tangent * std::abs(want.x[i])) << i;
    }
  }
}

struct AttentionResults {
  std::vector<float> out, log_sum_exp, d_qkv;
};

AttentionResults RunAttention(Device& device, const AttentionSpec& spec) {
  TestArrays arrays(device);
  const int64_t positions = spec.batch * spec.heads * spec.context, n = positions * spec.head_width;
  auto attention = device.PlanAttention(spec);
  EXPECT_TRUE(attention.ok()) << attention.status();
  const Array qkv = arrays.Make(RandomFloats(3 * n, 1), spec.dtype), d_out = arrays.Make(RandomFloats(n, 2), spec.dtype);
  const Array out = arrays.Empty(n, spec.dtype), d_qkv = arrays.Empty(3 * n, spec.dtype);
  const Array log_sum_exp = arrays.Empty(positions);
  const Array work = arrays.Empty(((*attention)->workspace_bytes() + 3) / 4).As(DType::kUint8);
  (*attention)->Forward(arrays.stream(), qkv, out, log_sum_exp, work);
  (*attention)->Backward(arrays.stream(), qkv, out, log_sum_exp, d_out, d_qkv, work);
  return {arrays.ReadWide(out), arrays.Read(log_sum_exp), arrays.ReadWide(d_qkv)};
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, double bound, double scale) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], bound * (std::abs(want[i]) + scale)) << i;
}

TEST_P(PlannedKernels, AttentionIsTheCpus) {
  const auto cuda = MakeCuda(), cpu = MakeCpuDevice();
  for (const DType dtype : kActivations) {
    for (const int64_t context : {64, 200}) {
      SCOPED_TRACE(testing::Message() << Name(dtype).data() << ", context " << context);
      const AttentionSpec spec{.batch = 2, .heads = 3, .context = context, .head_width = 64, .dtype = dtype};
      const AttentionResults got = RunAttention(*cuda, spec), want = RunAttention(*cpu, spec);
      // Sums of up to context or head_width products in another order; where probabilities are rounded is the vendor's own.
      const double bound = 0x1p-22 * static_cast<double>(context + spec.head_width) + 4 * HalfUlp(dtype);
      ExpectNear(got.out, want.out, bound, 1);
      ExpectNear(got.log_sum_exp, want.log_sum_exp, bound, 1);
      ExpectNear(got.d_qkv, want.d_qkv, bound, 8);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, PlannedKernels, testing::Range(0, KernelOrders()));

}  // namespace
}  // namespace zeroshard::device::cuda
