#include "zeroshard/device/cpu/cpu_transformer_kernels.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cpu/each_target.h"
#include "zeroshard/device/cpu/test_arrays.h"

namespace zeroshard::device {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

void ExpectNear(const Floats& got, const Doubles& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound * (1 + std::abs(want[i]))) << "element " << i;
}

// Rows and width; rows beyond one partial, widths around the sixteen lanes.
class TransformerKernelsTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {
 protected:
  const int64_t rows_ = GetParam().first, width_ = GetParam().second;
  std::unique_ptr<Device> device_ = MakeCpuDevice();
  TestArrays arrays_{*device_};
};

TEST_P(TransformerKernelsTest, LayerNorm_IsTheFormula) {
  const Floats x = RandomFloats(rows_ * width_, 1, 3), w = RandomFloats(width_, 2), b = RandomFloats(width_, 3);
  const Array h = arrays_.Empty(rows_ * width_), r = arrays_.Empty(rows_), y = arrays_.Empty(rows_ * width_);
  const Array weight = arrays_.Make(w), bias = arrays_.Make(b), again = arrays_.Empty(rows_ * width_);
  arrays_.kernels().LayerNorm(arrays_.stream(), arrays_.Make(x), weight, bias, h, r, y);
  arrays_.kernels().LayerNormOutput(arrays_.stream(), h, weight, bias, again);
  Doubles want_h(x.size()), want_y(x.size()), want_r(static_cast<size_t>(rows_));
  for (int64_t row = 0; row < rows_; ++row) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width_; ++i) mean += x[row * width_ + i] / double(width_);
    for (int64_t i = 0; i < width_; ++i) variance += std::pow(x[row * width_ + i] - mean, 2) / double(width_);
    want_r[row] = 1 / std::sqrt(variance + 1e-5);
    for (int64_t i = 0; i < width_; ++i) {
      want_h[row * width_ + i] = (x[row * width_ + i] - mean) * want_r[row];
      want_y[row * width_ + i] = want_h[row * width_ + i] * w[i] + b[i];
    }
  }
  if (width_ > 1) {  // of one column the variance is a rounding error
    ExpectNear(arrays_.Read(r), want_r, 2e-6);
    ExpectNear(arrays_.Read(h), want_h, 2e-6);
    ExpectNear(arrays_.Read(y), want_y, 4e-6);
  }
  EXPECT_EQ(arrays_.Read(y), arrays_.Read(again));
}

TEST_P(TransformerKernelsTest, LayerNormBackward_IsTheFormulaAndAddsWhereAsked) {
  const Floats d = RandomFloats(rows_ * width_, 1), h = RandomFloats(rows_ * width_, 2), r = RandomFloats(rows_, 3);
  const Floats w = RandomFloats(width_, 4), before = RandomFloats(rows_ * width_, 5);
  Doubles want(before.begin(), before.end()), sum_w(width_), sum_b(width_), sum_x(width_);
  for (int64_t row = 0; row < rows_; ++row) {
    double mean = 0, slope = 0;
    for (int64_t i = 0, at = row * width_; i < width_; ++i, ++at) {
      mean += double(d[at]) * w[i] / double(width_);
      slope += double(d[at]) * w[i] * h[at] / double(width_);
      sum_w[i] += double(d[at]) * h[at];
      sum_b[i] += d[at];
    }
    for (int64_t i = 0, at = row * width_; i < width_; ++i, ++at) {
      want[at] += r[row] * (double(d[at]) * w[i] - mean - h[at] * slope);
      sum_x[i] += want[at];
    }
  }
  const int64_t sums = PartialRows(rows_) * width_;
  const LayerNormPartials partials{arrays_.Empty(sums), arrays_.Empty(sums), arrays_.Empty(sums)};
  const Array d_x = arrays_.Make(before), d_w = arrays_.Empty(width_), d_b = arrays_.Empty(width_);
  const Array d_bias = arrays_.Make(Floats(static_cast<size_t>(width_), 2.0f));
  Stream& stream = arrays_.stream();
  arrays_.kernels().LayerNormBackward(stream, arrays_.Make(d), arrays_.Make(h), arrays_.Make(r), arrays_.Make(w), d_x,
                                      WriteMode::kAccumulate, partials);
  arrays_.kernels().SumRows(stream, partials.weight, d_w, WriteMode::kOverwrite);
  arrays_.kernels().SumRows(stream, partials.bias, d_b, WriteMode::kOverwrite);
  arrays_.kernels().SumRows(stream, partials.d_x, d_bias, WriteMode::kAccumulate);
  ExpectNear(arrays_.Read(d_x), want, 1e-5);
  ExpectNear(arrays_.Read(d_w), sum_w, 3e-5);
  ExpectNear(arrays_.Read(d_b), sum_b, 3e-5);
  for (double& sum : sum_x) sum += 2;
  ExpectNear(arrays_.Read(d_bias), sum_x, 3e-5);

  const Array fresh = arrays_.Empty(rows_ * width_);
  arrays_.kernels().LayerNormBackward(stream, arrays_.Make(d), arrays_.Make(h), arrays_.Make(r), arrays_.Make(w), fresh,
                                      WriteMode::kOverwrite, partials);
  for (size_t i = 0; i < want.size(); ++i) want[i] -= before[i];
  ExpectNear(arrays_.Read(fresh), want, 1e-5);
}

TEST_P(TransformerKernelsTest, GeluBackward_IsTheFormula) {
  const Floats x = RandomFloats(rows_ * width_, 1, 2), d = RandomFloats(rows_ * width_, 2);
  Doubles want_y, want_d, sums(static_cast<size_t>(width_));
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], root = std::sqrt(2 / std::numbers::pi), t = std::tanh(root * (a + 0.044715 * a * a * a));
    want_y.push_back(0.5 * a * (1 + t));
    want_d.push_back(d[i] * (0.5 * (1 + t) + 0.5 * a * (1 - t * t) * root * (1 + 3 * 0.044715 * a * a)));
    sums[i % static_cast<size_t>(width_)] += want_d.back();
  }
  const Array in = arrays_.Make(x), gradient = arrays_.Make(d), y = arrays_.Empty(rows_ * width_);
  const Array partials = arrays_.Empty(PartialRows(rows_) * width_), sum = arrays_.Empty(width_);
  arrays_.kernels().Gelu(arrays_.stream(), in, y);
  arrays_.kernels().GeluBackward(arrays_.stream(), in, gradient, partials, width_);
  arrays_.kernels().SumRows(arrays_.stream(), partials, sum, WriteMode::kOverwrite);
  ExpectNear(arrays_.Read(y), want_y, 1e-6);
  EXPECT_EQ(arrays_.Read(in), arrays_.Read(y));
  ExpectNear(arrays_.Read(gradient), want_d, 2e-6);
  ExpectNear(arrays_.Read(sum), sums, 2e-5);
}

// The vocabulary in blocks of 20 columns, so that maxima move from block to block; logits grow to the right.
struct LossResult {
  double loss;
  Floats gradient;
};
LossResult RunLoss(TestArrays& arrays, int64_t rows, int64_t vocab, const Floats& logits,
                   const std::vector<int32_t>& targets, float scale) {
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
    blocks.push_back(arrays.Make(block));
    maxima.push_back(arrays.Empty(rows));
    arrays.kernels().LossExponentials(arrays.stream(), {first, count}, loss_rows, blocks.back(), blocks.back(),
                                      maxima.back());
  }
  const Array loss = arrays.Make(Doubles{-1});
  arrays.kernels().LossSum(arrays.stream(), loss_rows, loss);
  LossResult result{arrays.Read<double>(loss)[0], Floats(static_cast<size_t>(rows * vocab))};
  for (size_t b = 0; b < blocks.size(); ++b) {
    const int64_t first = static_cast<int64_t>(b) * kColumns, count = blocks[b].elements() / rows;
    arrays.kernels().LossGradient(arrays.stream(), {first, count}, loss_rows, maxima[b], scale, blocks[b]);
    const Floats block = arrays.Read(blocks[b]);
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
  const LossResult got = RunLoss(arrays_, rows_, vocab, logits, targets, 0.5f);
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
  ExpectNear(got.gradient, gradient, 5e-7);
}

TEST_P(TransformerKernelsTest, EveryVectorWidthAndThreadCount_GivesTheSameBits) {
  std::vector<Floats> first;
  const auto run = [&](Device& device) {
    TestArrays arrays(device);
    Stream& stream = arrays.stream();
    const int64_t n = rows_ * width_, sums = PartialRows(rows_) * width_;
    const Array x = arrays.Make(RandomFloats(n, 1, 2)), w = arrays.Make(RandomFloats(width_, 2)),
                b = arrays.Make(RandomFloats(width_, 3));
    const Array h = arrays.Empty(n), r = arrays.Empty(rows_), y = arrays.Empty(n), d = arrays.Make(RandomFloats(n, 4)),
                d_x = arrays.Empty(n);
    const LayerNormPartials partials{arrays.Empty(sums), arrays.Empty(sums), arrays.Empty(sums)};
    const Array gelu_partials = arrays.Empty(sums), sum = arrays.Empty(width_);
    arrays.kernels().LayerNorm(stream, x, w, b, h, r, y);
    arrays.kernels().LayerNormBackward(stream, d, h, r, w, d_x, WriteMode::kOverwrite, partials);
    arrays.kernels().GeluBackward(stream, x, d, gelu_partials, width_);
    arrays.kernels().SumRows(stream, d, sum, WriteMode::kOverwrite);
    const LossResult loss =
        RunLoss(arrays, rows_, width_, RandomFloats(n, 5, 5), std::vector<int32_t>(static_cast<size_t>(rows_), 0), 1.0f);
    std::vector<Floats> all;
    for (const Array& array : {h, r, y, d_x, partials.weight, partials.bias, partials.d_x, x, d, gelu_partials, sum}) {
      all.push_back(arrays.Read(array));
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

INSTANTIATE_TEST_SUITE_P(Shapes, TransformerKernelsTest,
                         testing::Values(std::pair(1, 1), std::pair(3, 13), std::pair(64, 16), std::pair(65, 17),
                                         std::pair(130, 48), std::pair(5, 391)),
                         [](const auto& p) { return std::to_string(p.param.first) + "x" + std::to_string(p.param.second); });

class NotANumberTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = MakeCpuDevice();
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

TEST(EmbeddingTest, ForwardAndBackward_AddUpRepeatedTokens) {
  const auto device = MakeCpuDevice({.threads = 2});
  TestArrays arrays(*device);
  const std::vector<int32_t> ids = {2, 0, 2, 1, 2, 2};  // two rows of three positions
  const Floats table = {1, 2, 3, 4, 5, 6, 7, 8}, places = {10, 20, 30, 40, 50, 60};
  const Array tokens = arrays.Make(ids), x = arrays.Empty(12), d_table = arrays.Empty(8), d_places = arrays.Empty(6);
  arrays.kernels().Embed(arrays.stream(), tokens, arrays.Make(table), arrays.Make(places), x);
  EXPECT_EQ(arrays.Read(x), (Floats{15, 26, 31, 42, 55, 66, 13, 24, 35, 46, 55, 66}));
  const Array d = arrays.Make(Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  arrays.kernels().EmbedTokensBackward(arrays.stream(), tokens, d, d_table, WriteMode::kOverwrite);
  EXPECT_EQ(arrays.Read(d_table), (Floats{3, 4, 7, 8, 26, 30, 0, 0}));
  arrays.kernels().EmbedTokensBackward(arrays.stream(), tokens, d, d_table, WriteMode::kAccumulate);
  EXPECT_EQ(arrays.Read(d_table), (Floats{6, 8, 14, 16, 52, 60, 0, 0}));
  arrays.kernels().EmbedPositionsBackward(arrays.stream(), d, d_places, WriteMode::kOverwrite);
  EXPECT_EQ(arrays.Read(d_places), (Floats{8, 10, 12, 14, 16, 18}));
  arrays.kernels().EmbedPositionsBackward(arrays.stream(), d, d_places, WriteMode::kAccumulate);
  EXPECT_EQ(arrays.Read(d_places), (Floats{16, 20, 24, 28, 32, 36}));
}

}  // namespace
}  // namespace zeroshard::device
