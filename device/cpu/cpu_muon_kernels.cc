// Muon's passes on the CPU. Its time is in its products; these are plain loops, the same for any number of threads.
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/block_sums.h"
#include "zeroshard/device/cpu/cpu_step_kernels.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/muon_numbers.h"

namespace zeroshard::device {
namespace {

constexpr int64_t kGrain = 1 << 15;

float ValueAt(DType dtype, std::span<const std::byte> x, size_t i) {
  if (dtype == DType::kFloat32) return reinterpret_cast<const float*>(x.data())[i];
  if (dtype == DType::kBfloat16) return ToFloat(reinterpret_cast<const Bfloat16*>(x.data())[i]);
  return ToFloat(reinterpret_cast<const Float16*>(x.data())[i]);
}

// Squares over blocks of 64 elements, blocks added exactly.
double Norm(std::span<const float> x) {
  int64_t words[kExactSumWords] = {};
  AddSquaresOfBlocks(x.data(), x.size(), words);
  return std::sqrt(exact_sum::Value(words));
}

}  // namespace

void CpuStepKernels::MuonDirection(Stream& stream, const MuonPass& pass, In gradients, In scalars, InOut momentum_buffer,
                                   Out direction) {
  const auto kernel = [](std::span<const std::byte> g, std::span<const StepScalars> s, std::span<float> buffer,
                         std::span<float> out, const MuonPass& p, DType dtype) {
    if (s[0].skip) {
      for (float& x : out) x = 0;
      return;
    }
    const auto multiplier = static_cast<float>(s[0].gradient_multiplier);
    const auto momentum = static_cast<float>(p.momentum);
    for (size_t i = 0; i < out.size(); ++i) {
      const float gradient = ValueAt(dtype, g, i) * multiplier;
      buffer[i] = std::fma(momentum, buffer[i], gradient);
      out[i] = p.nesterov ? std::fma(momentum, buffer[i], gradient) : buffer[i];
    }
    const auto scale = static_cast<float>(1 / (Norm(out) + kMuonNormEpsilon));
    for (float& x : out) x *= scale;
  };
  HostLaunch(stream, "muon_direction", kernel, Read<std::byte>(gradients), Read<StepScalars>(scalars),
             Update<float>(momentum_buffer), Write<float>(direction), pass, gradients.array.dtype());
}

void CpuStepKernels::MuonPolynomial(Stream& stream, In a, In a_squared, Out p) {
  const auto kernel = [](std::span<const float> x, std::span<const float> squared, std::span<float> out) {
    const auto n = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(out.size()))));
    for (size_t i = 0; i < out.size(); ++i) out[i] = std::fma(kMuonB, x[i], kMuonC * squared[i]);
    for (size_t i = 0; i < n; ++i) out[i * n + i] += kMuonA;
  };
  HostLaunch(stream, "muon_polynomial", kernel, Read<float>(a), Read<float>(a_squared), Write<float>(p));
}

void CpuStepKernels::MuonApply(Stream& stream, const MuonPass& pass, In direction, In scalars, InOut weights,
                               Out write_back) {
  const auto kernel = [](std::span<const float> d, std::span<const StepScalars> s, std::span<float> w,
                         std::span<std::byte> out, const MuonPass& p, DType narrow, int threads) {
    if (s[0].skip) return;
    const double lr = s[0].learning_rate * p.learning_rate_scale;
    const auto decay = static_cast<float>(lr * p.weight_decay), step = static_cast<float>(lr * p.shape_scale);
    ParallelFor(threads, static_cast<int64_t>(w.size()), kGrain, [&](int64_t first, int64_t last) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
        w[i] -= std::fma(decay, w[i], step * d[i]);
        if (out.empty()) continue;
        if (narrow == DType::kBfloat16) {
          reinterpret_cast<Bfloat16*>(out.data())[i] = ToBfloat16(w[i]);
        } else {
          reinterpret_cast<Float16*>(out.data())[i] = ToFloat16(w[i]);
        }
      }
    });
  };
  HostLaunch(stream, "muon_apply", kernel, Read<float>(direction), Read<StepScalars>(scalars), Update<float>(weights),
             Write<std::byte>(write_back), pass, write_back.array.dtype(), threads_);
}

}  // namespace zeroshard::device
