#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "zeroshard/device/cuda/kernel_pair.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/step_scalars.h"

namespace zeroshard::device::cuda {
namespace {

using StepKernelsOfCuda = KernelTest;

constexpr int64_t kSizes[] = {0, 1, 63, 64, 65, 127, 1000, 4099};

StepScalars Scalars(bool skip = false) {
  StepScalars s{};
  s.gradient_multiplier = 0.37;
  s.learning_rate = 3e-4;
  s.beta1 = 0.9;
  s.beta2 = 0.95;
  s.bias_correction1 = 1 - std::pow(0.9, 3);
  s.bias_correction2 = 1 - std::pow(0.95, 3);
  s.skip = skip ? 1 : 0;
  return s;
}

Both MakeScalars(KernelPair& pair, const StepScalars& scalars) {
  std::vector<uint8_t> bytes(sizeof scalars);
  std::memcpy(bytes.data(), &scalars, sizeof scalars);
  return pair.MakeOf(bytes);
}

std::vector<float> Squares(int64_t n, uint32_t seed) {
  std::vector<float> values = RandomFloats(n, seed);
  for (float& v : values) v *= v;
  return values;
}

// A vector whose blocks lie in different words of the exact sum.
std::vector<float> Spread(int64_t n) {
  std::vector<float> values = RandomFloats(n, 11);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(values[i], static_cast<int>(i * 7 / 64 % 120) - 60);
  return values;
}

TEST_P(StepKernelsOfCuda, TheExactNormHasTheBitsOfTheCpu) {
  for (const DType dtype : kActivations) {
    for (const int64_t n : kSizes) {
      for (const int64_t shift : {0, 3}) {
        SCOPED_TRACE(testing::Message() << Name(dtype).data() << ", " << n << " from " << shift);
        KernelPair pair;
        const Both x = pair.Make(Spread(n), dtype, shift), y = pair.Make(RandomFloats(n, 2), dtype);
        const Both sum = pair.MakeOf(std::vector<int64_t>(kExactSumWords));
        pair.Run([&](const Side& s) {
          s.step.AddPowers(s.stream, s(x), OnePiece(x.elements()), 2, s(sum));
          s.step.AddPowers(s.stream, s(y), OnePiece(y.elements()), 2, s(sum));
        });
        pair.ExpectSame(sum);
      }
    }
  }
}

TEST_P(StepKernelsOfCuda, TheExactNormCountsBlocksThatAreNotFinite) {
  std::vector<float> values = RandomFloats(500, 3);
  values[70] = std::numeric_limits<float>::infinity();
  values[499] = std::nanf("");
  KernelPair pair;
  const Both x = pair.Make(values, DType::kFloat32), sum = pair.MakeOf(std::vector<int64_t>(kExactSumWords));
  pair.Run([&](const Side& s) { s.step.AddPowers(s.stream, s(x), OnePiece(x.elements()), 2, s(sum)); });
  pair.ExpectSame(sum);
  EXPECT_EQ(reinterpret_cast<const int64_t*>(sum.cpu.address())[kExactSumDigits], 2);
}

// More blocks than one block of threads takes: the last of those normalises, and leaves nothing of its count of them.
TEST_P(StepKernelsOfCuda, TheExactNormOfManyBlocksHasTheBitsOfTheCpu) {
  std::vector<float> values = Spread(300003);
  values[70] = std::numeric_limits<float>::infinity();
  values[300001] = std::nanf("");
  for (const double p : {2.0, 1.0}) {
    KernelPair pair;
    const Both x = pair.Make(values, DType::kFloat32), sum = pair.MakeOf(std::vector<int64_t>(kExactSumWords));
    for (int64_t times = 1; times <= 2; ++times) {
      pair.Run([&](const Side& s) { s.step.AddPowers(s.stream, s(x), OnePiece(x.elements()), p, s(sum)); });
      pair.ExpectSame(sum);
      EXPECT_EQ(reinterpret_cast<const int64_t*>(sum.cpu.address())[kExactSumDigits], 2 * times);
    }
  }
}

TEST_P(StepKernelsOfCuda, OtherPowersHaveTheBitsOfTheCpu) {
  for (const double p : {1.0, 3.5}) {
    if (OnGpu() && p != 1) continue;  // The GPU's pow is its own.
    for (const DType dtype : kActivations) {
      for (const int64_t n : {1, 64, 1000}) {
        KernelPair pair;
        const Both x = pair.Make(RandomFloats(n, 4), dtype), sum = pair.MakeOf(std::vector<int64_t>(kExactSumWords));
        pair.Run([&](const Side& s) { s.step.AddPowers(s.stream, s(x), OnePiece(x.elements()), p, s(sum)); });
        pair.ExpectSame(sum);
      }
    }
  }
}

TEST_P(StepKernelsOfCuda, TheLargestMagnitudeIsTheCpus) {
  for (const DType dtype : kActivations) {
    for (const int64_t n : {0, 1, 63, 65, 5000}) {
      KernelPair pair;
      const Both x = pair.Make(RandomFloats(n, 5), dtype), largest = pair.MakeOf(std::vector<float>{0.01f});
      pair.Run([&](const Side& s) { s.step.MaxMagnitude(s.stream, s(x), OnePiece(x.elements(), 0), s(largest)); });
      pair.ExpectSame(largest);
    }
    KernelPair pair;
    std::vector<float> values = RandomFloats(777, 6);
    values[300] = std::numeric_limits<float>::infinity();
    values[600] = -std::nanf("");
    const Both x = pair.Make(values, dtype), largest = pair.MakeOf(std::vector<float>{0});
    pair.Run([&](const Side& s) { s.step.MaxMagnitude(s.stream, s(x), OnePiece(x.elements(), 0), s(largest)); });
    pair.ExpectSame(largest);
    EXPECT_TRUE(std::isnan(*reinterpret_cast<const float*>(largest.cpu.address())));
  }
}

TEST_P(StepKernelsOfCuda, ScalarsAreDerivedAsOnTheCpu) {
  const ScheduleKind kinds[] = {ScheduleKind::kConstant, ScheduleKind::kLinear,      ScheduleKind::kCosine,
                                ScheduleKind::kWarmup,   ScheduleKind::kWarmupDecay, ScheduleKind::kWarmupCosine,
                                ScheduleKind::kOneCycle};
  for (const ScheduleKind kind : kinds) {
    StepRule rule{.schedule = {.kind = kind, .warmup_steps = 3, .total_steps = 9},
                  .gradient_scale = 0.125,
                  .clip = 1,
                  .beta1 = 0.9,
                  .beta2 = 0.95,
                  .loss_scale = {.kind = LossScaleKind::kDynamic, .window = 2}};
    rule.schedule.cycle = {.first_steps = 2, .second_steps = 3, .decay_steps = 1, .decay_rate = 0.5, .cycles_beta1 = true};
    KernelPair pair;
    const Both scalars = MakeScalars(pair, StepScalars{});
    for (int step = 0; step < 8; ++step) {
      std::vector<int64_t> words(kExactSumWords);
      exact_sum::Add(words.data(), 4e9 + 1e8 * step);
      words[kExactSumDigits] = step == 4 ? 1 : 0;  // One step overflows.
      const Both sum = pair.MakeOf(words);
      const std::optional<double> rate = step == 6 ? std::optional<double>(1e-5) : std::nullopt;
      pair.Run([&](const Side& s) { s.step.DeriveScalars(s.stream, s(sum), rule, rate, s(scalars)); });
      if (!OnGpu()) pair.ExpectSame(scalars);
      const std::vector<std::byte> bytes = pair.Bytes(scalars.cuda);
      StepScalars got, want;
      std::memcpy(&got, bytes.data(), sizeof got);
      std::memcpy(&want, reinterpret_cast<const void*>(scalars.cpu.address()), sizeof want);
      EXPECT_EQ(got.applied_steps, want.applied_steps);
      EXPECT_EQ(got.skip, want.skip);
      EXPECT_EQ(got.scaling.scale, want.scaling.scale);
      EXPECT_NEAR(got.learning_rate, want.learning_rate, 1e-15 * want.learning_rate);
    }
  }
}

TEST_P(StepKernelsOfCuda, AdamHasTheBitsOfTheCpu) {
  for (const bool decoupled : {true, false}) {
    for (const DType gradient : kActivations) {
      for (const DType narrow : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
        for (const int64_t n : kSizes) {
          KernelPair pair;
          const Both g = pair.Make(RandomFloats(n, 1), gradient), w = pair.Make(RandomFloats(n, 2), DType::kFloat32);
          const Both m = pair.Make(RandomFloats(n, 3), DType::kFloat32), v = pair.Make(Squares(n, 4), DType::kFloat32);
          const Both back = pair.Make(narrow == DType::kFloat32 ? 0 : n, narrow), scalars = MakeScalars(pair, Scalars());
          const AdamPass pass{.weight_decay = 0.1, .learning_rate_scale = 0.5, .decoupled = decoupled};
          pair.Run(
              [&](const Side& s) { s.step.Adam(s.stream, OnePiece(n, pass), s(g), s(scalars), s(w), s(m), s(v), s(back)); });
          for (const Both& result : {w, m, v, back}) pair.ExpectSame(result);
        }
      }
    }
  }
}

TEST_P(StepKernelsOfCuda, SgdHasTheBitsOfTheCpu) {
  for (const bool has_momentum : {true, false}) {
    for (const bool nesterov : {true, false}) {
      for (const DType gradient : kActivations) {
        for (const int64_t n : kSizes) {
          KernelPair pair;
          const Both g = pair.Make(RandomFloats(n, 1), gradient, /*shift=*/n % 2), scalars = MakeScalars(pair, Scalars());
          const Both w = pair.Make(RandomFloats(n, 2), DType::kFloat32), back = pair.Make(n, DType::kBfloat16);
          const Both buffer = pair.Make(RandomFloats(has_momentum ? n : 0, 3), DType::kFloat32);
          const SgdPass pass{.momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.1};
          pair.Run(
              [&](const Side& s) { s.step.Sgd(s.stream, OnePiece(n, pass), s(g), s(scalars), s(w), s(buffer), s(back)); });
          for (const Both& result : {w, buffer, back}) pair.ExpectSame(result);
        }
      }
    }
  }
}

// Large ones among small ones, of any size and distance; more chunks than one block has.
template <class Of, class OfPiece>
Pieces<Of> SomePieces(int64_t alignment, const OfPiece& of) {
  Pieces<Of> pieces;
  int64_t first = 2 * alignment;
  for (const int64_t count : {5, 3000, 64, 1, 20000, 1024, 1023, 4 * 1024 * 300 + 3}) {
    pieces.Add({.first = first, .count = count, .of = of(pieces.size())});
    first += (count + alignment - 1) / alignment * alignment + (pieces.size() % 2) * alignment;
  }
  return pieces;
}
int64_t EndOf(const auto& pieces) { return pieces[pieces.size() - 1].first + pieces[pieces.size() - 1].count; }

TEST_P(StepKernelsOfCuda, PiecesOfOneLaunchHaveTheBitsOfTheCpuAndWhatLiesBetweenStays) {
  for (const int64_t alignment : {4, 1}) {
    const auto adam = SomePieces<AdamPass>(
        alignment, [](int p) { return AdamPass{.weight_decay = 0.1 * p, .learning_rate_scale = 1.0 + p}; });
    const auto sgd = SomePieces<SgdPass>(
        alignment, [](int p) { return SgdPass{.momentum = 0.9, .weight_decay = 0.1 * p, .learning_rate_scale = 1.0 + p}; });
    const int64_t n = EndOf(adam) + 7;
    KernelPair pair;
    const Both g = pair.Make(RandomFloats(n, 1), DType::kBfloat16), scalars = MakeScalars(pair, Scalars());
    const Both w = pair.Make(RandomFloats(n, 2), DType::kFloat32), m = pair.Make(RandomFloats(n, 3), DType::kFloat32);
    const Both v = pair.Make(Squares(n, 4), DType::kFloat32), back = pair.Make(n, DType::kBfloat16);
    pair.Run([&](const Side& s) { s.step.Adam(s.stream, adam, s(g), s(scalars), s(w), s(m), s(v), s(back)); });
    for (const Both& result : {w, m, v, back}) pair.ExpectSame(result);
    pair.Run([&](const Side& s) { s.step.Sgd(s.stream, sgd, s(g), s(scalars), s(w), s(m), s(back)); });
    for (const Both& result : {w, m, back}) pair.ExpectSame(result);
  }
}

TEST_P(StepKernelsOfCuda, TheNormAndMagnitudesOfPiecesHaveTheBitsOfTheCpu) {
  for (const int64_t alignment : {4, 1}) {
    const auto plain = SomePieces<Plain>(alignment, [](int) { return Plain(); });
    const auto indexed = SomePieces<int>(alignment, [](int p) { return 9 - p; });
    KernelPair pair;
    const Both x = pair.Make(Spread(EndOf(plain)), DType::kBfloat16);
    const Both sum = pair.MakeOf(std::vector<int64_t>(kExactSumWords));
    const Both largest = pair.MakeOf(std::vector<float>(10, 1e-3f));
    pair.Run([&](const Side& s) {
      s.step.AddPowers(s.stream, s(x), plain, 2, s(sum));
      s.step.AddPowers(s.stream, s(x), plain, 1, s(sum));
      s.step.MaxMagnitude(s.stream, s(x), indexed, s(largest));
    });
    pair.ExpectSame(sum);
    pair.ExpectSame(largest);
  }
}

TEST_P(StepKernelsOfCuda, NothingIsWrittenWhereTheStepIsSkipped) {
  KernelPair pair;
  const int64_t n = 100;
  const Both g = pair.Make(RandomFloats(n, 1), DType::kFloat32), scalars = MakeScalars(pair, Scalars(/*skip=*/true));
  const Both w = pair.Make(n, DType::kFloat32), m = pair.Make(n, DType::kFloat32), v = pair.Make(n, DType::kFloat32);
  const Both back = pair.Make(n, DType::kBfloat16), direction = pair.Make(n, DType::kFloat32);
  pair.Run([&](const Side& s) {
    s.step.Adam(s.stream, OnePiece(n, AdamPass()), s(g), s(scalars), s(w), s(m), s(v), s(back));
    s.step.Sgd(s.stream, OnePiece(n, SgdPass()), s(g), s(scalars), s(w), s(m), s(back));
    s.step.MuonDirection(s.stream, {}, s(g), s(scalars), s(m), s(direction));
    s.step.MuonApply(s.stream, {}, s(direction), s(scalars), s(w), s(back));
  });
  for (const Both& result : {w, m, v, back, direction}) pair.ExpectSame(result);
}

TEST_P(StepKernelsOfCuda, MuonHasTheBitsOfTheCpu) {
  for (const bool nesterov : {true, false}) {
    for (const DType gradient : kActivations) {
      for (const int64_t n : {1, 6, 63, 65, 100}) {
        KernelPair pair;
        const Both g = pair.Make(RandomFloats(n * n, 1), gradient), scalars = MakeScalars(pair, Scalars());
        const Both buffer = pair.Make(RandomFloats(n * n, 2), DType::kFloat32),
                   direction = pair.Make(n * n, DType::kFloat32);
        const Both squared = pair.Make(RandomFloats(n * n, 3), DType::kFloat32), p = pair.Make(n * n, DType::kFloat32);
        const Both w = pair.Make(RandomFloats(n * n, 4), DType::kFloat32), back = pair.Make(n * n, gradient);
        const MuonPass pass{.nesterov = nesterov, .weight_decay = 0.1, .shape_scale = 1.3};
        const bool narrow = gradient != DType::kFloat32;
        pair.Run([&](const Side& s) {
          s.step.MuonDirection(s.stream, pass, s(g), s(scalars), s(buffer), s(direction));
          s.step.MuonPolynomial(s.stream, s(direction), s(squared), s(p));
          s.step.MuonApply(s.stream, pass, s(direction), s(scalars), s(w), narrow ? s(back) : Array());
        });
        for (const Both& result : {buffer, direction, p, w, back}) pair.ExpectSame(result);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, StepKernelsOfCuda, testing::Range(0, KernelOrders()));

}  // namespace
}  // namespace zeroshard::device::cuda
