#include "zeroshard/device/cpu/cpu_step_kernels.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/block_sums.h"
#include "zeroshard/device/cpu/elementwise_kernels.h"
#include "zeroshard/device/cpu/magnitude.h"
#include "zeroshard/device/cpu/optimizer_pass.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device {

namespace {

// What one thread takes at a time, in elements: some pages of each array, and whole blocks of the norm.
constexpr int64_t kGrain = 1 << 15;
// Elements that go through a buffer in the first-level cache where storage is not fp32.
constexpr size_t kStaged = 1024;
static_assert(kStaged % kNormBlock == 0 && kGrain % kStaged == 0);

const std::byte* At(const std::byte* x, DType dtype, size_t first) { return x + first * static_cast<size_t>(SizeOf(dtype)); }

// Calls body(values, first, count) for stretches of the n elements at x, as fp32. A stretch that is not the last is whole
// blocks.
template <class Body>
void ForEachStretch(DType dtype, const std::byte* x, size_t begin, size_t end, const Body& body) {
  if (dtype == DType::kFloat32) return body(reinterpret_cast<const float*>(x) + begin, begin, end - begin);
  float staged[kStaged];
  for (size_t first = begin; first < end; first += kStaged) {
    const size_t count = std::min(kStaged, end - first);
    ConvertElements(dtype, At(x, dtype, first), DType::kFloat32, staged, static_cast<int64_t>(count));
    body(staged, first, count);
  }
}

// Calls part(begin, end) for parts of [0, n) on `threads` threads.
template <class Part>
void ForEachPart(int threads, size_t n, const Part& part) {
  ParallelFor(threads, static_cast<int64_t>(n), kGrain,
              [&](int64_t first, int64_t last) { part(static_cast<size_t>(first), static_cast<size_t>(last)); });
}

double SumPowersOfBlock(const float* x, size_t count, double p) {
  double lanes[8] = {};
  for (size_t i = 0; i < count; ++i) {
    const double magnitude = std::fabs(static_cast<double>(x[i]));
    lanes[i % 8] += p == 1 ? magnitude : std::pow(magnitude, p);
  }
  return AddLanes(lanes);
}

void AddPowersOfBlocks(const float* x, size_t count, double p, int64_t* words) {
  for (size_t first = 0; first < count; first += kNormBlock) {
    exact_sum::Add(words, SumPowersOfBlock(x + first, std::min(kNormBlock, count - first), p));
  }
}

// |x| as fp32 bits grows with |x|, and every NaN lies above infinity.
uint32_t MagnitudeBits(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }

// The largest magnitude of n elements, as the bits of an fp32.
uint32_t LargestOf(DType dtype, const std::byte* x, size_t n) {
  if (dtype == DType::kFloat32) return LargestMagnitude(reinterpret_cast<const float*>(x), n);
  const uint16_t bits = LargestMagnitude(reinterpret_cast<const uint16_t*>(x), n);
  return MagnitudeBits(dtype == DType::kBfloat16 ? ToFloat(Bfloat16{bits}) : ToFloat(Float16{bits}));
}

}  // namespace

void CpuStepKernels::AddPowers(Stream& stream, In x, const Pieces<Plain>& pieces, double p, InOut sum) {
  const auto kernel = [](std::span<const std::byte> values, std::span<int64_t> words, const Pieces<Plain>& of, DType dtype,
                         double power, int threads) {
    for (const Piece<Plain>& piece : of) {
      const std::byte* from = At(values.data(), dtype, static_cast<size_t>(piece.first));
      ForEachPart(threads, static_cast<size_t>(piece.count), [&](size_t begin, size_t end) {
        int64_t part[kExactSumWords] = {};
        ForEachStretch(dtype, from, begin, end, [&](const float* v, size_t, size_t count) {
          if (power == 2) return AddSquaresOfBlocks(v, count, part);
          AddPowersOfBlocks(v, count, power, part);
        });
        for (int i = 0; i < kExactSumWords; ++i) {
          if (part[i] != 0) std::atomic_ref(words[static_cast<size_t>(i)]).fetch_add(part[i], std::memory_order_relaxed);
        }
      });
    }
    exact_sum::Normalize(words.data());
  };
  HostLaunch(stream, "add_powers", kernel, Read<std::byte>(x), Update<int64_t>(sum), pieces, x.array.dtype(), p, threads_);
}

void CpuStepKernels::MaxMagnitude(Stream& stream, In x, const Pieces<int>& pieces, InOut largest) {
  const auto kernel = [](std::span<const std::byte> values, std::span<float> results, const Pieces<int>& of, DType dtype,
                         int threads) {
    const int64_t size = SizeOf(dtype);
    for (const Piece<int>& piece : of) {
      float& result = results[static_cast<size_t>(piece.of)];
      std::atomic<uint32_t> bits = MagnitudeBits(result);
      ParallelFor(threads, piece.count, kGrain, [&](int64_t first, int64_t last) {
        const std::byte* from = values.data() + (piece.first + first) * size;
        const uint32_t part = LargestOf(dtype, from, static_cast<size_t>(last - first));
        uint32_t before = bits.load(std::memory_order_relaxed);
        while (before < part && !bits.compare_exchange_weak(before, part, std::memory_order_relaxed)) continue;
      });
      result = std::bit_cast<float>(bits.load());
    }
  };
  HostLaunch(stream, "max_magnitude", kernel, Read<std::byte>(x), Update<float>(largest), pieces, x.array.dtype(), threads_);
}

void CpuStepKernels::DeriveScalars(Stream& stream, In sum, const StepRule& rule, std::optional<double> learning_rate,
                                   InOut scalars) {
  const auto kernel = [](std::span<const int64_t> words, std::span<StepScalars> s, const StepRule& r,
                         std::optional<double> rate) {
    s[0] = NextScalars(s[0], exact_sum::Value(words.data()), exact_sum::NonFinite(words.data()), r, rate);
  };
  HostLaunch(stream, "derive_scalars", kernel, Read<int64_t>(sum), Update<StepScalars>(scalars), rule, learning_rate);
}

void CpuStepKernels::Adam(Stream& stream, const Pieces<AdamPass>& pieces, In gradients, In scalars, InOut weights,
                          InOut exp_avg, InOut exp_avg_sq, Out write_back) {
  const auto kernel = [](std::span<const std::byte> g, std::span<const StepScalars> s, std::span<float> w,
                         std::span<float> m, std::span<float> v, std::span<std::byte> out, const Pieces<AdamPass>& of,
                         DType gradient, DType narrow, int threads) {
    if (s[0].skip) return;
    const PassArrays arrays{gradient, g.data(), w.data(), m.data(), v.data(), narrow, out.data()};
    for (const Piece<AdamPass>& piece : of) {
      const AdamFactors factors = MakeAdamFactors(piece.of, s[0]);
      ForEachPart(threads, static_cast<size_t>(piece.count), [&](size_t begin, size_t end) {
        AdamSpan(factors, arrays, static_cast<size_t>(piece.first) + begin, end - begin);
      });
    }
  };
  HostLaunch(stream, "adam", kernel, Read<std::byte>(gradients), Read<StepScalars>(scalars), Update<float>(weights),
             Update<float>(exp_avg), Update<float>(exp_avg_sq), Write<std::byte>(write_back), pieces,
             gradients.array.dtype(), write_back.array.dtype(), threads_);
}

void CpuStepKernels::Sgd(Stream& stream, const Pieces<SgdPass>& pieces, In gradients, In scalars, InOut weights,
                         InOut momentum_buffer, Out write_back) {
  const auto kernel = [](std::span<const std::byte> g, std::span<const StepScalars> s, std::span<float> w,
                         std::span<float> b, std::span<std::byte> out, const Pieces<SgdPass>& of, DType gradient,
                         DType narrow, int threads) {
    if (s[0].skip) return;
    const PassArrays arrays{gradient, g.data(), w.data(), b.data(), nullptr, narrow, out.data()};
    for (const Piece<SgdPass>& piece : of) {
      const SgdFactors factors = MakeSgdFactors(piece.of, s[0]);
      ForEachPart(threads, static_cast<size_t>(piece.count), [&](size_t begin, size_t end) {
        SgdSpan(factors, arrays, static_cast<size_t>(piece.first) + begin, end - begin);
      });
    }
  };
  HostLaunch(stream, "sgd", kernel, Read<std::byte>(gradients), Read<StepScalars>(scalars), Update<float>(weights),
             Update<float>(momentum_buffer), Write<std::byte>(write_back), pieces, gradients.array.dtype(),
             write_back.array.dtype(), threads_);
}

}  // namespace zeroshard::device
