#include "zeroshard/device/cpu/cpu_step_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/exact_sum.h"

namespace zeroshard::device {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Normal(size_t n, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

template <class T>
Array ArrayOf(std::vector<T>& values) {
  return Array(reinterpret_cast<uint64_t>(values.data()), static_cast<int64_t>(values.size()), DTypeOf<T>::value);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

class CpuStepKernelsTest : public testing::Test {
 protected:
  std::vector<int64_t> Powers(std::vector<float> x, double p, int threads = 1) {
    std::vector<int64_t> sum(kExactSumWords);
    CpuStepKernels(threads).AddPowers(*stream_, ArrayOf(x), OnePiece(ArrayOf(x).elements()), p, ArrayOf(sum));
    return sum;
  }
  double NormOf(const std::vector<int64_t>& sum, double p) { return std::pow(exact_sum::Value(sum.data()), 1 / p); }

  std::unique_ptr<Device> device_ = MakeCpuDevice();
  std::unique_ptr<Stream> stream_ = device_->MakeStream(StreamKind::kCompute);
};

TEST_F(CpuStepKernelsTest, NormOfTenThousandOnesIsOneHundred) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::vector<int64_t> sum(kExactSumWords);
    const int64_t part = (10000 / 64 / ranks + 1) * 64;
    for (int64_t first = 0; first < 10000; first += part) {
      std::vector<float> ones(static_cast<size_t>(std::min(part, 10000 - first)), 1.0f);
      const std::vector<int64_t> of_rank = Powers(ones, 2);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += of_rank[i];
    }
    EXPECT_EQ(std::sqrt(exact_sum::Value(sum.data())), 100.0);
  }
}

TEST_F(CpuStepKernelsTest, NormsOnAnyShardsAreThoseOfTheFullVector) {
  std::mt19937 random(3);
  const std::vector<float> x = Normal(64 * 1000 + 17, 1, 1e-3f);
  for (double p : {1.0, 2.0, 2.5, 3.0}) {
    const std::vector<int64_t> whole = Powers(x, p);
    double reference = 0;
    for (float v : x) reference += std::pow(std::fabs(static_cast<double>(v)), p);
    EXPECT_NEAR(NormOf(whole, p), std::pow(reference, 1 / p), 1e-12 * std::pow(reference, 1 / p));
    for (int round = 0; round < 5; ++round) {
      std::vector<int64_t> sum(kExactSumWords);
      for (size_t first = 0; first < x.size();) {
        const size_t count = std::min<size_t>(64 * (1 + random() % 300), x.size() - first);
        std::vector<float> shard(x.begin() + static_cast<std::ptrdiff_t>(first),
                                 x.begin() + static_cast<std::ptrdiff_t>(first + count));
        CpuStepKernels(1).AddPowers(*stream_, ArrayOf(shard), OnePiece(ArrayOf(shard).elements()), p, ArrayOf(sum));
        first += count;
      }
      EXPECT_EQ(sum, whole) << "p " << p;
    }
  }
}

TEST_F(CpuStepKernelsTest, LargestMagnitudeOnShardsIsThatOfTheFullVector) {
  std::vector<float> x = Normal(1000, 2);
  std::vector<float> largest = {0};
  CpuStepKernels step(1);
  step.MaxMagnitude(*stream_, ArrayOf(x).Slice(0, 300), OnePiece(300, 0), ArrayOf(largest));
  step.MaxMagnitude(*stream_, ArrayOf(x).Slice(300, 700), OnePiece(700, 0), ArrayOf(largest));
  float reference = 0;
  for (float v : x) reference = std::max(reference, std::fabs(v));
  EXPECT_EQ(largest[0], reference);
  x[500] = -kInf;
  step.MaxMagnitude(*stream_, ArrayOf(x), OnePiece(1000, 0), ArrayOf(largest));
  EXPECT_EQ(largest[0], kInf);
  x[2] = kNan;
  step.MaxMagnitude(*stream_, ArrayOf(x), OnePiece(1000, 0), ArrayOf(largest));
  EXPECT_TRUE(std::isnan(largest[0]));
}

template <class T>
void ExpectLargest(Stream& stream, std::vector<T> x, size_t at, T value, float expected) {
  for (int threads : {1, 2}) {
    std::vector<T> values = x;
    values[at] = value;
    std::vector<float> largest = {0.5f};
    CpuStepKernels(threads).MaxMagnitude(stream, ArrayOf(values), OnePiece(ArrayOf(values).elements(), 0), ArrayOf(largest));
    EXPECT_TRUE(largest[0] == expected || (std::isnan(largest[0]) && std::isnan(expected))) << largest[0] << " at " << at;
  }
}

TEST_F(CpuStepKernelsTest, LargestMagnitudeIsSeenWhereverItLiesInEveryDType) {
  for (size_t n : {1u, 31u, 32u, 1000u, 100001u}) {
    for (size_t at : {size_t{0}, n / 2, n - 1}) {
      for (float value : {-3.0f, kInf, kNan, 0.25f}) {
        const float expected = value == 0.25f ? 0.5f : std::fabs(value);
        ExpectLargest<float>(*stream_, std::vector<float>(n, -0.25f), at, value, expected);
        ExpectLargest<Bfloat16>(*stream_, std::vector<Bfloat16>(n, ToBfloat16(-0.25f)), at, ToBfloat16(value), expected);
        ExpectLargest<Float16>(*stream_, std::vector<Float16>(n, ToFloat16(-0.25f)), at, ToFloat16(value), expected);
      }
    }
  }
}

TEST_F(CpuStepKernelsTest, ABlockThatIsNotFiniteIsCountedWhereverItLies) {
  for (float bad : {kInf, -kInf, kNan}) {
    for (size_t at : {0u, 63u, 64u, 1000u, 1023u, 1024u, 1030u}) {
      std::vector<float> x = Normal(1031, 4);
      x[at] = bad;
      EXPECT_EQ(exact_sum::NonFinite(Powers(x, 2).data()), 1) << at;
      EXPECT_EQ(exact_sum::NonFinite(Powers(x, 1).data()), 1) << at;
    }
  }
  EXPECT_EQ(exact_sum::NonFinite(Powers(Normal(1031, 4), 2).data()), 0);
}

TEST_F(CpuStepKernelsTest, TheWholeRangeOfFp32IsSquaredExactly) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(std::sqrt(exact_sum::Value(Powers({largest}, 2).data())), static_cast<double>(largest));
  EXPECT_EQ(std::sqrt(exact_sum::Value(Powers({smallest}, 2).data())), static_cast<double>(smallest));
  std::vector<float> x(64, largest);
  x.resize(128, smallest);
  std::vector<int64_t> sum = Powers(x, 2);
  const std::vector<int64_t> large = Powers(std::vector<float>(64, largest), 2);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] -= large[i];
  EXPECT_EQ(exact_sum::Value(sum.data()), 64 * 0x1p-298);
}

TEST_F(CpuStepKernelsTest, PiecesAreTakenEachFromItsStart) {
  std::vector<float> x = Normal(1000, 3);
  Pieces<Plain> pieces;
  Pieces<int> indexed;
  std::vector<int64_t> sum(kExactSumWords), reference(kExactSumWords);
  std::vector<float> largest(3), largest_reference(3);
  const int64_t bounds[][2] = {{3, 70}, {80, 1}, {200, 700}};
  for (const auto& [first, count] : bounds) {
    const int index = 2 - pieces.size();
    pieces.Add({.first = first, .count = count});
    indexed.Add({.first = first, .count = count, .of = index});
    const Array alone = ArrayOf(x).Slice(first, count);
    CpuStepKernels(1).AddPowers(*stream_, alone, OnePiece(count), 2, ArrayOf(reference));
    CpuStepKernels(1).MaxMagnitude(*stream_, alone, OnePiece(count, index), ArrayOf(largest_reference));
  }
  CpuStepKernels(1).AddPowers(*stream_, ArrayOf(x), pieces, 2, ArrayOf(sum));
  CpuStepKernels(1).MaxMagnitude(*stream_, ArrayOf(x), indexed, ArrayOf(largest));
  EXPECT_EQ(sum, reference);
  EXPECT_EQ(largest, largest_reference);
}

TEST_F(CpuStepKernelsTest, EmptyShardsAddNothing) { EXPECT_EQ(exact_sum::Value(Powers({}, 2).data()), 0); }

TEST_F(CpuStepKernelsTest, NormOfTwoByteGradientsIsOfTheirValues) {
  const std::vector<float> x = Normal(3000, 5);
  std::vector<Bfloat16> bf16;
  std::vector<Float16> fp16;
  std::vector<float> of_bf16, of_fp16;
  for (float v : x) {
    bf16.push_back(ToBfloat16(v));
    fp16.push_back(ToFloat16(v));
    of_bf16.push_back(ToFloat(bf16.back()));
    of_fp16.push_back(ToFloat(fp16.back()));
  }
  std::vector<int64_t> sum(kExactSumWords);
  CpuStepKernels(1).AddPowers(*stream_, ArrayOf(bf16), OnePiece(ArrayOf(bf16).elements()), 2, ArrayOf(sum));
  EXPECT_EQ(sum, Powers(of_bf16, 2));
  std::fill(sum.begin(), sum.end(), 0);
  CpuStepKernels(1).AddPowers(*stream_, ArrayOf(fp16), OnePiece(ArrayOf(fp16).elements()), 2, ArrayOf(sum));
  EXPECT_EQ(sum, Powers(of_fp16, 2));
}

StepScalars SomeScalars() {
  return NextScalars({}, 4, 0, {.schedule = {.learning_rate = 1e-2}, .clip = 1, .beta1 = 0.9, .beta2 = 0.95}, std::nullopt);
}

// One shard's arrays, and what a pass makes of them.
struct State {
  std::vector<float> gradients, weights, first, second;
};
State MakeState(size_t n) { return {Normal(n, 6), Normal(n, 7), Normal(n, 8, 0.1f), std::vector<float>(n, 0.5f)}; }

// Elements [first, first + count) by one pass: kind 0 AdamW, 1 Adam, 2 SGD, 3 SGD with momentum, 4 Nesterov.
constexpr int kKinds = 5;
void Pass(Stream& stream, int kind, State& state, int64_t first, int64_t count, int threads = 1,
          StepScalars scalars = SomeScalars(), Array write_back = {}) {
  const auto part = [&](std::vector<float>& v) { return ArrayOf(v).Slice(first, count); };
  const Array s(reinterpret_cast<uint64_t>(&scalars), sizeof(scalars), DType::kUint8);
  CpuStepKernels step(threads);
  if (kind < 2) {
    const AdamPass pass{.weight_decay = 0.1, .decoupled = kind == 0};
    return step.Adam(stream, OnePiece(count, pass), part(state.gradients), s, part(state.weights), part(state.first),
                     part(state.second), write_back);
  }
  const SgdPass pass{.momentum = kind == 2 ? 0 : 0.9, .nesterov = kind == 4, .weight_decay = 0.01};
  step.Sgd(stream, OnePiece(count, pass), part(state.gradients), s, part(state.weights),
           kind == 2 ? Array() : part(state.first), write_back);
}

void ExpectSameBits(const State& a, const State& b) {
  EXPECT_TRUE(SameBits(a.weights, b.weights));
  EXPECT_TRUE(SameBits(a.first, b.first));
  EXPECT_TRUE(SameBits(a.second, b.second));
}

TEST_F(CpuStepKernelsTest, PassesGiveTheSameBitsInBodiesAndTails) {
  for (int kind = 0; kind < kKinds; ++kind) {
    State whole = MakeState(203), single = MakeState(203), odd = MakeState(203);
    Pass(*stream_, kind, whole, 0, 203);
    for (int64_t i = 0; i < 203; ++i) Pass(*stream_, kind, single, i, 1);
    for (int64_t i = 0; i < 203; i += 29) Pass(*stream_, kind, odd, i, 29);
    ExpectSameBits(whole, single);
    ExpectSameBits(whole, odd);
    EXPECT_FALSE(SameBits(whole.weights, MakeState(203).weights));
  }
}

TEST_F(CpuStepKernelsTest, PassesAndNormsGiveTheSameBitsOnAnyNumberOfThreads) {
  const size_t n = 200'000;
  for (int kind = 0; kind < kKinds; ++kind) {
    State one = MakeState(n), three = MakeState(n);
    Pass(*stream_, kind, one, 0, static_cast<int64_t>(n), 1);
    Pass(*stream_, kind, three, 0, static_cast<int64_t>(n), 3);
    ExpectSameBits(one, three);
  }
  const std::vector<float> x = Normal(n, 9);
  EXPECT_EQ(Powers(x, 2, 1), Powers(x, 2, 3));
}

TEST_F(CpuStepKernelsTest, EveryInstructionSetGivesTheSameBits) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  if (targets.size() < 2) GTEST_SKIP() << "this machine has one of the instruction sets only";
  std::vector<State> states;
  std::vector<std::vector<int64_t>> sums;
  for (int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    for (int kind = 0; kind < kKinds; ++kind) {
      states.push_back(MakeState(1003));
      Pass(*stream_, kind, states.back(), 0, 1003);
    }
    sums.push_back(Powers(Normal(10'001, 10), 2));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
  for (size_t t = 1; t < targets.size(); ++t) {
    for (size_t kind = 0; kind < kKinds; ++kind) ExpectSameBits(states[kind], states[t * kKinds + kind]);
    EXPECT_EQ(sums[0], sums[t]);
  }
}

TEST_F(CpuStepKernelsTest, ASkippedStepWritesNothing) {
  StepScalars skip = SomeScalars();
  skip.skip = 1;
  std::vector<Bfloat16> out(100, Bfloat16{7});
  for (int kind = 0; kind < kKinds; ++kind) {
    State state = MakeState(100);
    state.gradients[3] = kNan;
    Pass(*stream_, kind, state, 0, 100, 1, skip, ArrayOf(out));
    ExpectSameBits(state, MakeState(100));
    for (Bfloat16 b : out) EXPECT_EQ(b.bits, 7);
  }
}

TEST_F(CpuStepKernelsTest, WritesWeightsBackRoundedOnce) {
  for (int kind = 0; kind < kKinds; ++kind) {
    State state = MakeState(5000);
    std::vector<Bfloat16> bf16(5000);
    std::vector<Float16> fp16(5000);
    Pass(*stream_, kind, state, 0, 5000, 1, SomeScalars(), ArrayOf(bf16));
    for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(bf16[i].bits, ToBfloat16(state.weights[i]).bits);
    Pass(*stream_, kind, state, 0, 5000, 1, SomeScalars(), ArrayOf(fp16));
    for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(fp16[i].bits, ToFloat16(state.weights[i]).bits);
  }
}

TEST_F(CpuStepKernelsTest, TwoByteGradientsAreTakenAtTheirValue) {
  State narrow = MakeState(5000), wide = MakeState(5000);
  std::vector<Bfloat16> gradients;
  for (float& g : wide.gradients) {
    gradients.push_back(ToBfloat16(g));
    g = ToFloat(gradients.back());
  }
  Pass(*stream_, 0, wide, 0, 5000);
  StepScalars scalars = SomeScalars();
  const Array s(reinterpret_cast<uint64_t>(&scalars), sizeof(scalars), DType::kUint8);
  CpuStepKernels(1).Adam(*stream_, OnePiece(5000, AdamPass{.weight_decay = 0.1}), ArrayOf(gradients), s,
                         ArrayOf(narrow.weights), ArrayOf(narrow.first), ArrayOf(narrow.second), {});
  ExpectSameBits(narrow, wide);
}

TEST_F(CpuStepKernelsTest, DerivedScalarsReadTheExactSum) {
  std::vector<int64_t> sum = Powers(std::vector<float>(10000, 1.0f), 2);
  StepScalars scalars = {};
  const Array s(reinterpret_cast<uint64_t>(&scalars), sizeof(scalars), DType::kUint8);
  device_->step().DeriveScalars(*stream_, ArrayOf(sum), {.clip = 50}, 0.25, s);
  EXPECT_EQ(scalars.norm, 100);
  EXPECT_EQ(scalars.clip_factor, 50 / (100 + 1e-6));
  EXPECT_EQ(scalars.learning_rate, 0.25);
  EXPECT_EQ(scalars.applied_steps, 1);
  ++sum[kExactSumDigits];
  device_->step().DeriveScalars(*stream_, ArrayOf(sum), {.clip = 50}, std::nullopt, s);
  EXPECT_EQ(scalars.skip, 1);
  EXPECT_EQ(scalars.applied_steps, 1);
  EXPECT_EQ(scalars.skipped_steps, 1);
}

}  // namespace
}  // namespace zeroshard::device
