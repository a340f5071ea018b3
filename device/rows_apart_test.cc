// Matrices whose rows lie apart, and products that go through GELU, on every device that the target links.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/late/test_devices.h"

namespace zeroshard::device {
namespace {

using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class RowsApart : public testing::TestWithParam<TestDevice> {
 protected:
  const std::unique_ptr<Device> device_ = GetParam().make();
  TestArrays arrays_{*device_};
};
INSTANTIATE_TEST_SUITE_P(Devices, RowsApart, testing::ValuesIn(TestDevices()), NameOfTestDevice);

// [rows, stride] of dense [rows, columns]; what is between rows is NaN.
Floats Spread(const Floats& dense, int64_t columns, int64_t stride) {
  const int64_t rows = static_cast<int64_t>(dense.size()) / columns;
  Floats spread(static_cast<size_t>(rows * stride), kNan);
  for (int64_t i = 0; i < rows * columns; ++i) spread[i / columns * stride + i % columns] = dense[i];
  return spread;
}

// The rows again; nothing else may have been written.
Floats Gathered(const Floats& spread, int64_t columns, int64_t stride) {
  Floats dense;
  for (int64_t i = 0; i < static_cast<int64_t>(spread.size()); ++i) {
    if (i % stride < columns) {
      dense.push_back(spread[i]);
    } else {
      EXPECT_TRUE(std::isnan(spread[i])) << "between rows, element " << i;
    }
  }
  return dense;
}

TEST_P(RowsApart, AProductReadsAndWritesNothingBetweenThem) {
  constexpr int64_t kM = 150, kK = 131, kN = 81, kAStride = 160, kCStride = 128;
  for (const DType input : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (int way = 0; way < 8; ++way) {
      const GemmSpec spec{.m = kM,
                          .k = kK,
                          .n = kN,
                          .transpose_a = (way & 1) != 0,
                          .transpose_b = (way & 2) != 0,
                          .accumulate = (way & 4) != 0,
                          .input = input,
                          .output = way == 3 ? input : DType::kFloat32,
                          .a_stride = kAStride,
                          .c_stride = kCStride};
      SCOPED_TRACE(std::string(Name(input)) + ", way " + std::to_string(way));
      const Floats a = Rounded(RandomFloats(kM * kK, 1), input), b = Rounded(RandomFloats(kK * kN, 2), input);
      const Floats c = Rounded(RandomFloats(kM * kN, 3), spec.output);
      const Array out = arrays_.Make(Spread(c, kN, kCStride), spec.output);
      const auto gemm = device_->PlanGemm(spec);
      ASSERT_TRUE(gemm.ok()) << gemm.status();
      (*gemm)->Run(arrays_.stream(), arrays_.Make(Spread(a, spec.a_columns(), kAStride), input), arrays_.Make(b, input),
                   out);
      const Floats got = Gathered(arrays_.ReadWide(out), kN, kCStride);
      for (int64_t i = 0; i < kM * kN; i += 7) {
        double want = spec.accumulate ? c[i] : 0, magnitude = 1;
        for (int64_t l = 0; l < kK; ++l) {
          const double x = a[spec.transpose_a ? l * kM + i / kN : i / kN * kK + l];
          const double product = x * b[spec.transpose_b ? i % kN * kK + l : l * kN + i % kN];
          want += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(got[i], want, 1e-6 * magnitude + HalfUlp(spec.output) * std::abs(want)) << "element " << i;
      }
    }
  }
  EXPECT_TRUE(device_->status().ok()) << device_->status();
}

TEST_P(RowsApart, ThatOverlapAreRefused) {
  EXPECT_EQ(device_->PlanGemm({.m = 4, .k = 8, .n = 2, .a_stride = 7}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->PlanGemm({.m = 4, .k = 8, .n = 2, .c_stride = 1}).status().code(), absl::StatusCode::kInvalidArgument);
}

// A loss over two blocks of the vocabulary, the second of which is odd.
struct LossResult {
  double loss;
  Floats gradient;
};
LossResult RunLoss(TestArrays& arrays, int64_t stride_of, DType dtype) {
  constexpr int64_t kRows = 37, kCounts[] = {128, 61};
  std::vector<int32_t> targets;
  for (int64_t row = 0; row < kRows; ++row) targets.push_back(row % 5 == 4 ? -1 : static_cast<int32_t>(row * 11 % 189));
  const LossRows rows{.targets = arrays.Make(targets),
                      .maximum = arrays.Empty(kRows),
                      .sum = arrays.Make(std::vector<double>(kRows)),
                      .target_logit = arrays.Empty(kRows)};
  std::vector<Array> blocks, maxima;
  std::vector<VocabularyColumns> columns;
  for (int64_t first = 0; const int64_t count : kCounts) {
    columns.push_back({.first = first, .count = count, .stride = (count + stride_of - 1) / stride_of * stride_of});
    const int64_t stride = columns.back().row_stride();
    const Array logits = arrays.Make(Spread(RandomFloats(kRows * count, static_cast<uint32_t>(count), 3), count, stride));
    const Floats nothing(static_cast<size_t>(kRows * stride), kNan);
    blocks.push_back(dtype == DType::kFloat32 ? logits : arrays.Make(nothing, dtype));
    maxima.push_back(arrays.Empty(kRows));
    arrays.kernels().LossExponentials(arrays.stream(), columns.back(), rows, logits, blocks.back(), maxima.back());
    first += count;
  }
  const Array loss = arrays.Make(std::vector<double>{-1});
  arrays.kernels().LossSum(arrays.stream(), rows, loss);
  LossResult result{arrays.Read<double>(loss)[0], {}};
  for (size_t i = 0; i < blocks.size(); ++i) {
    arrays.kernels().LossGradient(arrays.stream(), columns[i], rows, maxima[i], 0.5f, blocks[i]);
    const Floats block = Gathered(arrays.ReadWide(blocks[i]), columns[i].count, columns[i].row_stride());
    result.gradient.insert(result.gradient.end(), block.begin(), block.end());
  }
  return result;
}

TEST_P(RowsApart, ALossHasTheBitsOfOneWhoseRowsAreDense) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    const LossResult dense = RunLoss(arrays_, 1, dtype), apart = RunLoss(arrays_, 128, dtype);
    EXPECT_GT(dense.loss, 0);
    EXPECT_EQ(apart.loss, dense.loss) << Name(dtype);
    EXPECT_EQ(apart.gradient, dense.gradient) << Name(dtype);
  }
}

// As a layer has it, and with rows that no kernel for both takes.
TEST_P(RowsApart, AProductThatGoesThroughGeluKeepsItsInput) {
  constexpr int64_t kM = 9, kK = 24;
  for (const int64_t n : {16, 7}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      const GemmSpec spec{
          .m = kM, .k = kK, .n = n, .transpose_b = true, .bias = true, .input = dtype, .output = dtype, .bias_dtype = dtype};
      const auto plain = device_->PlanGemm(spec);
      const auto both = device_->PlanGeluGemm(spec);
      ASSERT_TRUE(both.ok()) << both.status();
      const Array a = arrays_.Make(RandomFloats(kM * kK, 1, 0.3f), dtype), b = arrays_.Make(RandomFloats(kK * n, 2), dtype);
      const Array bias = arrays_.Make(RandomFloats(n, 3), dtype), want = arrays_.Empty(kM * n, dtype);
      const Array x = arrays_.Empty(kM * n, dtype), y = arrays_.Empty(kM * n, dtype), again = arrays_.Empty(kM * n, dtype);
      (*plain)->Run(arrays_.stream(), a, b, want, bias);
      (*both)->Run(arrays_.stream(), a, b, bias, x, y);
      (*both)->RunInput(arrays_.stream(), a, b, bias, again, arrays_.Empty(kM * n, dtype));
      EXPECT_EQ(arrays_.ReadWide(x), arrays_.ReadWide(again));
      const Floats sums = arrays_.ReadWide(x), activated = arrays_.ReadWide(y), alone = arrays_.ReadWide(want);
      ExpectNear(sums, std::vector<double>(alone.begin(), alone.end()), 1e-6 + 2 * HalfUlp(dtype));
      for (size_t i = 0; i < sums.size(); ++i) {
        const double s = sums[i], root = std::sqrt(2 / std::numbers::pi);
        const double gelu = 0.5 * s * (1 + std::tanh(root * (s + 0.044715 * s * s * s)));
        // Of the input before or after it was rounded: GELU's slope is at most 1.13.
        ASSERT_NEAR(activated[i], gelu, 2e-6 + 2.2 * HalfUlp(dtype) * std::abs(s)) << Name(dtype) << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace zeroshard::device
