#include "zeroshard/zero/testing/toy_model.h"

#include <limits>
#include <string_view>

#include "zeroshard/device/device.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::zero::testing {
namespace {

using device::HostLaunch;
using device::Read;
using device::Update;
using device::Write;

uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

float Uniform(uint64_t key) { return static_cast<float>(static_cast<int64_t>(Mix(key) >> 40) - (1 << 23)) * 0x1p-23f; }

uint64_t Key(uint64_t a, uint64_t b, uint64_t c) { return Mix(Mix(Mix(a + 1) + b) + c); }

}  // namespace

float Coefficient(const Sample& sample, int unit, int parameter, int64_t element) {
  const uint64_t when = Key(sample.rank, sample.step, sample.micro_batch);
  return Uniform(Key(when, static_cast<uint64_t>(unit) * 1000 + parameter, element));
}

float Target(int parameter, int64_t element) { return Uniform(Key(77, parameter, element)); }

float Initial(const model::ParameterSpec& parameter, int64_t element) {
  uint64_t name = 5;
  for (char c : parameter.name) name = Mix(name + static_cast<unsigned char>(c));
  return Uniform(Key(99, name, element));
}

double UseLoss(const Sample& sample, int unit, int parameter, bool reads, std::span<const float> values) {
  double loss = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double c = Coefficient(sample, unit, parameter, static_cast<int64_t>(i));
    const double d = static_cast<double>(values[i]) - Target(parameter, static_cast<int64_t>(i));
    loss += reads ? 0.5 * c * d * d : c * values[i];
  }
  return loss;
}

float UseGradient(const Sample& sample, int unit, int parameter, bool reads, int64_t element, float value) {
  const float c = Coefficient(sample, unit, parameter, element);
  return reads ? c * (value - Target(parameter, element)) : c;
}

void ToyModel::Pad(device::Stream& stream, const device::Array& array) const {
  const int64_t padding = -array.elements() & 63;
  if (padding_ == Padding::kLeft || array.empty() || padding == 0) return;
  stream.device().elementwise().Fill(stream, array.Slice(array.elements(), padding),
                                     std::numeric_limits<double>::quiet_NaN());
}

void ToyModel::Forward(device::Stream& stream, int unit, std::span<const device::Array> parameters, const Sample& sample,
                       device::Array loss) const {
  const bool reads = units_[unit].backward_reads_parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    Pad(stream, parameters[i]);
    HostLaunch(
        stream, "toy forward",
        [](std::span<const float> values, std::span<double> sum, Sample s, int u, int p, bool r) {
          sum[0] += UseLoss(s, u, p, r, values);
        },
        Read<float>(parameters[i]), Update<double>(loss), sample, unit, static_cast<int>(i), reads);
  }
}

void ToyModel::Recompute(device::Stream& stream, std::span<const device::Array> parameters) const {
  for (const device::Array& parameter : parameters) {
    HostLaunch(
        stream, "toy recompute", [](std::span<const float>) {}, Read<float>(parameter));
  }
}

void ToyModel::Backward(device::Stream& stream, int unit, std::span<const device::Array> parameters,
                        std::span<const model::GradientTarget> targets, const Sample& sample) const {
  const bool reads = units_[unit].backward_reads_parameters;
  for (size_t i = 0; i < targets.size(); ++i) {
    const device::Array& target = targets[i].array;
    if (target.empty()) continue;
    Pad(stream, target);
    const device::Array values = reads ? parameters[i] : device::Array();
    const int p = static_cast<int>(i);
    if (targets[i].accumulate) {
      HostLaunch(
          stream, "toy backward, added",
          [](std::span<const float> v, std::span<float> g, Sample s, int u, int q, bool r) {
            for (size_t e = 0; e < g.size(); ++e) g[e] += UseGradient(s, u, q, r, static_cast<int64_t>(e), r ? v[e] : 0);
          },
          Read<float>(values), Update<float>(target), sample, unit, p, reads);
    } else {
      HostLaunch(
          stream, "toy backward",
          [](std::span<const float> v, std::span<float> g, Sample s, int u, int q, bool r) {
            for (size_t e = 0; e < g.size(); ++e) g[e] = UseGradient(s, u, q, r, static_cast<int64_t>(e), r ? v[e] : 0);
          },
          Read<float>(values), Write<float>(target), sample, unit, p, reads);
    }
  }
}

}  // namespace zeroshard::zero::testing
