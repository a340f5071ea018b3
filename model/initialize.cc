#include "zeroshard/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "zeroshard/device/text_hash.h"

namespace zeroshard::model {
namespace {

constexpr double kDeviation = 0.02;

// SplitMix64's finisher: a bijection of 64 bits in which every bit of the result depends on every bit of x.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// 64 random bits, number `counter` of a stream.
uint64_t Bits(uint64_t stream, uint64_t counter) { return Mix(Mix(stream) + (counter + 1) * 0x9e3779b97f4a7c15u); }

// Box and Muller, on two uniform values in (0, 1].
double Normal(uint64_t stream, int64_t index) {
  constexpr double kUnit = 0x1p-53;
  const uint64_t counter = 2 * static_cast<uint64_t>(index);
  const double radius = static_cast<double>((Bits(stream, counter) >> 11) + 1) * kUnit;
  const double angle = static_cast<double>(Bits(stream, counter + 1) >> 11) * kUnit;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

}  // namespace

void Initialize(const ParameterSpec& parameter, int64_t layers, uint64_t seed, int64_t first, std::span<float> values) {
  const std::string_view name = parameter.name;
  if (parameter.shape.size() < 2) {
    std::fill(values.begin(), values.end(), name.ends_with(".bias") ? 0.0f : 1.0f);
    return;
  }
  const bool residual = name.ends_with(".c_proj.weight");
  const double deviation = residual ? kDeviation / std::sqrt(2.0 * static_cast<double>(layers)) : kDeviation;
  const uint64_t stream = Mix(seed) ^ device::TextHash(name);  // each parameter has one of its own
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(deviation * Normal(stream, first + static_cast<int64_t>(i)));
  }
}

}  // namespace zeroshard::model
