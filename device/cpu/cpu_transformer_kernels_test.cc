#include "zeroshard/device/cpu/cpu_transformer_kernels.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cpu/each_target.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/late/test_devices.h"

namespace zeroshard::device {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// Rows beyond one partial, widths around the sixteen lanes.
struct Case {
  int64_t rows, width;
  DType dtype;
  bool late;
};

std::unique_ptr<Device> MakeDevice(bool late) { return late ? MakeOrderedDevice({}) : MakeTestDevice(); }

class TransformerKernelsTest : public testing::TestWithParam<Case> {
 protected:
  const int64_t rows_ = GetParam().rows, width_ = GetParam().width;
  const DType dtype_ = GetParam().dtype;
  const double half_ = HalfUlp(dtype_);
  Floats Random(int64_t elements, uint32_t seed, float deviation = 1) {
    return Rounded(RandomFloats(elements, seed, deviation), dtype_);
  }
  Array Make(const Floats& values) { return arrays_.Make(values, dtype_); }
  Array Empty(int64_t elements) { return arrays_.Empty(elements, dtype_); }
  std::unique_ptr<Device> device_ = MakeDevice(GetParam().late);
  TestArrays arrays_{*device_};
};

TEST_P(TransformerKernelsTest, LayerNorm_IsTheFormula) {
  const Floats x = RandomFloats(rows_ * width_, 1, 3), w = Random(width_, 2), b = Random(width_, 3);
  const Array h = Empty(rows_ * width_), r = arrays_.Empty(rows_), y = Empty(rows_ * width_);
  arrays_.kernels().LayerNorm(arrays_.stream(), arrays_.Make(x), Make(w), Make(b), h, r, y);
  const Floats got_h = arrays_.ReadWide(h);
  Doubles want_h(x.size()), want_y(x.size()), want_r(static_cast<size_t>(rows_));
  for (int64_t row = 0; row < rows_; ++row) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width_; ++i) mean += x[row * width_ + i] / double(width_);
    for (int64_t i = 0; i < width_; ++i) variance += std::pow(x[row * width_ + i] - mean, 2) / double(width_);
    want_r[row] = 1 / std::sqrt(variance + 1e-5);
    for (int64_t i = 0; i < width_; ++i) {
      want_h[row * width_ + i] = (x[row * width_ + i] - mean) * want_r[row];
      want_y[row * width_ + i] = double(got_h[row * width_ + i]) * w[i] + b[i];
    }
  }
  if (width_ > 1) {  // of one column the variance is a rounding error
    ExpectNear(arrays_.Read(r), want_r, 2e-6);
    ExpectNear(got_h, want_h, 2e-6 + half_);
    ExpectNear(arrays_.ReadWide(y), want_y, 2e-6 + half_);
  }
}

TEST_P(TransformerKernelsTest, LayerNormBackward_LeavesTheNormsOutputAgain) {
  const int64_t n = rows_ * width_, sums = PartialRows(rows_) * width_;
  const Array h = Empty(n), r = arrays_.Empty(rows_), y = Empty(n), again = Empty(n), d_x = arrays_.Empty(n);
  const Array weight = Make(Random(width_, 2)), bias = Make(Random(width_, 3));
  const LayerNormPartials partials{arrays_.Empty(sums), arrays_.Empty(sums), arrays_.Empty(sums)};
  arrays_.kernels().LayerNorm(arrays_.stream(), arrays_.Make(RandomFloats(n, 1, 3)), weight, bias, h, r, y);
  arrays_.kernels().LayerNormBackward(arrays_.stream(), Make(Random(n, 4)), h, r, weight, d_x, WriteMode::kOverwrite,
                                      partials, {.y = again, .bias = bias});
  EXPECT_EQ(arrays_.ReadWide(y), arrays_.ReadWide(again));
}

struct NormGradient {
  Doubles d_x, weight, bias, sum;
};
// Onto what d_x was before.
NormGradient ReferenceNormGradient(const Floats& d, const Floats& h, const Floats& r, const Floats& w,
                                   const Floats& before) {
  const size_t width = w.size();
  NormGradient want{Doubles(before.begin(), before.end()), Doubles(width), Doubles(width), Doubles(width)};
  for (size_t row = 0; row < r.size(); ++row) {
    double mean = 0, slope = 0;
    for (size_t i = 0, at = row * width; i < width; ++i, ++at) {
      mean += double(d[at]) * w[i] / double(width);
      slope += double(d[at]) * w[i] * h[at] / double(width);
      want.weight[i] += double(d[at]) * h[at];
      want.bias[i] += d[at];
    }
    for (size_t i = 0, at = row * width; i < width; ++i, ++at) {
      want.d_x[at] += r[row] * (double(d[at]) * w[i] - mean - h[at] * slope);
      want.sum[i] += want.d_x[at];
    }
  }
  return want;
}

TEST_P(TransformerKernelsTest, LayerNormBackward_IsTheFormulaAndAddsWhereAsked) {
  const int64_t n = rows_ * width_, sums = PartialRows(rows_) * width_;
  const Floats d = Random(n, 1), h = Random(n, 2), r = RandomFloats(rows_, 3), w = Random(width_, 4);
  const Floats before = RandomFloats(n, 5), two(static_cast<size_t>(width_), 2.0f);
  NormGradient want = ReferenceNormGradient(d, h, r, w, before);
  const LayerNormPartials partials{arrays_.Empty(sums), arrays_.Empty(sums), arrays_.Empty(sums)};
  const Array d_x = arrays_.Make(before), rounded = Empty(n), d_w = Empty(width_), d_b = arrays_.Empty(width_);
  const Array d_bias = Make(two);
  Stream& stream = arrays_.stream();
  arrays_.kernels().LayerNormBackward(stream, Make(d), Make(h), arrays_.Make(r), Make(w), d_x, WriteMode::kAccumulate,
                                      partials, {.rounded = rounded});
  arrays_.kernels().SumRows(stream, partials.weight, d_w, WriteMode::kOverwrite);
  arrays_.kernels().SumRows(stream, partials.bias, d_b, WriteMode::kOverwrite);
  arrays_.kernels().SumRows(stream, partials.d_x, d_bias, WriteMode::kAccumulate);
  ExpectNear(arrays_.Read(d_x), want.d_x, 1e-5);
  EXPECT_EQ(arrays_.ReadWide(rounded), Rounded(arrays_.Read(d_x), dtype_));
  ExpectNear(arrays_.ReadWide(d_w), want.weight, 3e-5 + half_);
  ExpectNear(arrays_.Read(d_b), want.bias, 3e-5);
  for (double& sum : want.sum) sum += 2;
  ExpectNear(arrays_.ReadWide(d_bias), want.sum, 3e-5 + half_);

  // d_y in fp32, and nothing before.
  const Array fresh = arrays_.Empty(n);
  arrays_.kernels().LayerNormBackward(stream, arrays_.Make(d), Make(h), arrays_.Make(r), Make(w), fresh,
                                      WriteMode::kOverwrite, partials);
  for (size_t i = 0; i < want.d_x.size(); ++i) want.d_x[i] -= before[i];
  ExpectNear(arrays_.Read(fresh), want.d_x, 1e-5);
}

TEST_P(TransformerKernelsTest, GeluBackward_IsTheFormula) {
  const Floats x = Random(rows_ * width_, 1, 2), d = Random(rows_ * width_, 2);
  Doubles want_y, want_d, sums(static_cast<size_t>(width_));
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], root = std::sqrt(2 / std::numbers::pi), t = std::tanh(root * (a + 0.044715 * a * a * a));
    want_y.push_back(0.5 * a * (1 + t));
    want_d.push_back(d[i] * (0.5 * (1 + t) + 0.5 * a * (1 - t * t) * root * (1 + 3 * 0.044715 * a * a)));
    sums[i % static_cast<size_t>(width_)] += want_d.back();
  }
  const Array in = Make(x), gradient = Make(d), y = Empty(rows_ * width_);
  const Array partials = arrays_.Empty(PartialRows(rows_) * width_), sum = arrays_.Empty(width_);
  arrays_.kernels().Gelu(arrays_.stream(), in, y);
  arrays_.kernels().GeluBackward(arrays_.stream(), in, gradient, partials, width_);
  arrays_.kernels().SumRows(arrays_.stream(), partials, sum, WriteMode::kOverwrite);
  ExpectNear(arrays_.ReadWide(y), want_y, 1e-6 + half_);
  EXPECT_EQ(arrays_.ReadWide(in), arrays_.ReadWide(y));
  ExpectNear(arrays_.ReadWide(gradient), want_d, 2e-6 + half_);
  ExpectNear(arrays_.Read(sum), sums, 2e-5);
}

TEST_P(TransformerKernelsTest, SumRows_AddsInFp32AndRoundsOnce) {
  const Floats x = Random(rows_ * width_, 1, 2), before = Random(width_, 2);
  Doubles sum(before.begin(), before.end());
  for (size_t i = 0; i < x.size(); ++i) sum[i % static_cast<size_t>(width_)] += x[i];
  for (const DType own : {dtype_, DType::kFloat32}) {
    const Array to = arrays_.Make(before, own);
    arrays_.kernels().SumRows(arrays_.stream(), Make(x), to, WriteMode::kAccumulate);
    ExpectNear(arrays_.ReadWide(to), sum, 1e-5 + HalfUlp(own));
  }
}

TEST_P(TransformerKernelsTest, SumRows_OfSeveralIsEachAlone) {
  const Array x = Make(Random(rows_ * width_, 1)), y = Make(Random(3 * width_, 2));
  const Floats before = Random(width_, 3);
  const Array x_sum = Make(before), y_sum = Make(before), x_alone = Make(before), y_alone = Make(before);
  arrays_.kernels().SumRows(arrays_.stream(), x, x_alone, WriteMode::kAccumulate);
  arrays_.kernels().SumRows(arrays_.stream(), y, y_alone, WriteMode::kOverwrite);
  const RowSum both[] = {{x, x_sum, WriteMode::kAccumulate}, {y, y_sum, WriteMode::kOverwrite}};
  arrays_.kernels().SumRows(arrays_.stream(), both);
  EXPECT_EQ(arrays_.ReadWide(x_sum), arrays_.ReadWide(x_alone));
  EXPECT_EQ(arrays_.ReadWide(y_sum), arrays_.ReadWide(y_alone));
}

// The vocabulary in blocks of 20 columns, so that maxima move from block to block; logits grow to the right.
struct LossResult {
  double loss;
  Floats gradient;
};
LossResult RunLoss(TestArrays& arrays, int64_t rows, int64_t vocab, const Floats& logits,
                   const std::vector<int32_t>& targets, float scale, DType dtype = DType::kFloat32) {
  constexpr int64_t kColumns = 20;
  const LossRows loss_rows{.targets = arrays.Make(targets),
                           .maximum = arrays.Empty(rows),
                           .sum = arrays.Make(Doubles(static_cast<size_t>(rows))),
                           .target_logit = arrays.Empty(rows)};
  std::vector<Array> blocks, maxima;
  for (int64_t first = 0; first < vocab; first += kColumns) {
    const int64_t count = std::min(kColumns, vocab - first);
    Floats block;
    for (int64_t row = 0; row < rows; ++row) {
      block.insert(block.end(), logits.begin() + row * vocab + first, logits.begin() + row * vocab + first + count);
    }
    const Array in = arrays.Make(block);
    blocks.push_back(dtype == DType::kFloat32 ? in : arrays.Empty(rows * count, dtype));
    maxima.push_back(arrays.Empty(rows));
    arrays.kernels().LossExponentials(arrays.stream(), {first, count}, loss_rows, in, blocks.back(), maxima.back());
  }
  const Array loss = arrays.Make(Doubles{-1});
  arrays.kernels().LossSum(arrays.stream(), loss_rows, loss);
  LossResult result{arrays.Read<double>(loss)[0], Floats(static_cast<size_t>(rows * vocab))};
  for (size_t b = 0; b < blocks.size(); ++b) {
    const int64_t first = static_cast<int64_t>(b) * kColumns, count = blocks[b].elements() / rows;
    arrays.kernels().LossGradient(arrays.stream(), {first, count}, loss_rows, maxima[b], scale, blocks[b]);
    const Floats block = arrays.ReadWide(blocks[b]);
    for (int64_t i = 0; i < rows * count; ++i) result.gradient[i / count * vocab + first + i % count] = block[i];
  }
  return result;
}

TEST_P(TransformerKernelsTest, LossByBlocks_IsTheSoftmaxCrossEntropy) {
  const int64_t vocab = width_;
  Floats logits = RandomFloats(rows_ * vocab, 1, 4);
  for (int64_t i = 0; i < rows_ * vocab; ++i) logits[i] += 0.3f * static_cast<float>(i % vocab);
  std::vector<int32_t> targets;
  for (int64_t row = 0; row < rows_; ++row) targets.push_back(row % 5 == 4 ? -1 : static_cast<int32_t>(row * 7 % vocab));
  const LossResult got = RunLoss(arrays_, rows_, vocab, logits, targets, 0.5f, dtype_);
  double loss = 0;
  Doubles gradient(logits.size());
  for (int64_t row = 0; row < rows_; ++row) {
    if (targets[row] < 0) continue;
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(double(logits[row * vocab + i]));
    for (int64_t i = 0; i < vocab; ++i) gradient[row * vocab + i] = 0.5 * std::exp(double(logits[row * vocab + i])) / sum;
    gradient[row * vocab + targets[row]] -= 0.5;
    loss += std::log(sum) - logits[row * vocab + targets[row]];
  }
  EXPECT_NEAR(got.loss, loss, 3e-7 * loss + 1e-6);
  ExpectNear(got.gradient, gradient, 5e-7 + half_);  // of at most 0.5: rounded twice
}

TEST_P(TransformerKernelsTest, EveryVectorWidthAndThreadCount_GivesTheSameBits) {
  std::vector<Floats> first;
  const auto run = [&](Device& device) {
    TestArrays arrays(device);
    Stream& stream = arrays.stream();
    const int64_t n = rows_ * width_, sums = PartialRows(rows_) * width_;
    const auto make = [&](const Floats& values) { return arrays.Make(values, dtype_); };
    const Array x = arrays.Make(RandomFloats(n, 1, 2)), w = make(RandomFloats(width_, 2)), b = make(RandomFloats(width_, 3));
    const Array h = arrays.Empty(n, dtype_), r = arrays.Empty(rows_), y = arrays.Empty(n, dtype_);
    const Array d = make(RandomFloats(n, 4)), d_x = arrays.Empty(n), rounded = arrays.Empty(n, dtype_);
    const Array fc = make(RandomFloats(n, 6, 2)), tokens = arrays.Make(std::vector<int32_t>(static_cast<size_t>(rows_), 1));
    const Array d_table = arrays.Empty(3 * width_, dtype_);
    const LayerNormPartials partials{arrays.Empty(sums), arrays.Empty(sums), arrays.Empty(sums)};
    const Array gelu_partials = arrays.Empty(sums), sum = arrays.Empty(width_), again = arrays.Empty(n, dtype_);
    arrays.kernels().LayerNorm(stream, x, w, b, h, r, y);
    arrays.kernels().LayerNormBackward(stream, d, h, r, w, d_x, WriteMode::kOverwrite, partials,
                                       {.rounded = rounded, .y = again, .bias = b});
    arrays.kernels().EmbedTokensBackward(stream, tokens, d_x, d_table, WriteMode::kOverwrite);
    arrays.kernels().GeluBackward(stream, fc, d, gelu_partials, width_);
    arrays.kernels().SumRows(stream, d, sum, WriteMode::kOverwrite);
    const LossResult loss = RunLoss(arrays, rows_, width_, RandomFloats(n, 5, 5),
                                    std::vector<int32_t>(static_cast<size_t>(rows_), 0), 1.0f, dtype_);
    std::vector<Floats> all;
    for (const Array& array :
         {h, r, y, again, d_x, rounded, partials.weight, partials.bias, partials.d_x, d_table, fc, d, gelu_partials, sum}) {
      all.push_back(arrays.ReadWide(array));
    }
    all.push_back(loss.gradient);
    all.push_back({static_cast<float>(loss.loss)});
    if (first.empty()) first = all;
    EXPECT_EQ(all, first);
  };
  ForEachTarget([&](const char* name) {
    SCOPED_TRACE(name);
    run(*MakeCpuDevice({.threads = 1}));
    run(*MakeCpuDevice({.threads = 2}));
  });
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (const auto& [rows, width] :
         {std::pair(1, 1), std::pair(3, 13), std::pair(64, 16), std::pair(65, 17), std::pair(130, 48), std::pair(5, 391)}) {
      cases.push_back({rows, width, dtype, false});
    }
    cases.push_back({65, 17, dtype, true});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, TransformerKernelsTest, testing::ValuesIn(Cases()), [](const auto& p) {
  return std::string(Name(p.param.dtype)) + "_" + std::to_string(p.param.rows) + "x" + std::to_string(p.param.width) +
         (p.param.late ? "_late" : "");
});

class NotANumberTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = MakeTestDevice();
  TestArrays arrays_{*device_};
};

TEST_F(NotANumberTest, InLogits_ReachesLossAndGradient) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int at : {0, 15, 16, 33}) {
      Floats logits = RandomFloats(34, 1);
      logits[at] = bad;
      const LossResult result = RunLoss(arrays_, 1, 34, logits, {3}, 1.0f);
      EXPECT_FALSE(std::isfinite(result.loss)) << at;
      EXPECT_FALSE(std::isfinite(result.gradient[3])) << at;
    }
  }
}

TEST_F(NotANumberTest, InLogits_ReachesRoundedGradients) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    Floats logits = RandomFloats(34, 1);
    logits[33] = std::numeric_limits<float>::quiet_NaN();
    const LossResult result = RunLoss(arrays_, 1, 34, logits, {3}, 1.0f, dtype);
    for (const float value : result.gradient) EXPECT_TRUE(std::isnan(value)) << Name(dtype);
  }
}

TEST_F(NotANumberTest, InActivations_ReachesEveryOutput) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array y = arrays_.Empty(17), h = arrays_.Empty(17), r = arrays_.Empty(1);
  const Array ones = arrays_.Make(Floats(17, 1.0f));
  Floats x = RandomFloats(17, 1);
  x[16] = nan;
  arrays_.kernels().Gelu(arrays_.stream(), arrays_.Make(x), y);
  EXPECT_TRUE(std::isnan(arrays_.Read(y)[16]));
  arrays_.kernels().LayerNorm(arrays_.stream(), arrays_.Make(x), ones, ones, h, r, y);
  for (const float value : arrays_.Read(y)) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace zeroshard::device
