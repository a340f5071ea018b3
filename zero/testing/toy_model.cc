#include "zeroshard/zero/testing/toy_model.h"

#include <limits>
#include <string_view>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::zero::testing {
namespace {

using device::Array;
using device::HostLaunch;
using device::Read;
using device::Update;
using device::Write;

// visit(T()) for the element type of a float array.
template <class Visit>
void ForDType(device::DType dtype, const Visit& visit) {
  if (dtype == device::DType::kBfloat16) return visit(device::Bfloat16());
  if (dtype == device::DType::kFloat16) return visit(device::Float16());
  visit(float());
}

float Value(float x) { return x; }
float Value(device::Bfloat16 x) { return ToFloat(x); }
float Value(device::Float16 x) { return ToFloat(x); }
void Store(float x, float* y) { *y = x; }
void Store(float x, device::Bfloat16* y) { *y = device::ToBfloat16(x); }
void Store(float x, device::Float16* y) { *y = device::ToFloat16(x); }

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

double UseLoss(const Sample& sample, int unit, int parameter, bool reads, int64_t element, float value) {
  const double c = Coefficient(sample, unit, parameter, element);
  const double d = static_cast<double>(value) - Target(parameter, element);
  return reads ? 0.5 * c * d * d : c * value;
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

void ToyModel::Forward(device::Stream& stream, int unit, std::span<const Array> parameters, const Sample& sample,
                       Array loss) const {
  const bool reads = units_[unit].backward_reads_parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    Pad(stream, parameters[i]);
    ForDType(parameters[i].dtype(), [&](auto type) {
      using T = decltype(type);
      HostLaunch(
          stream, "toy forward",
          [](std::span<const T> values, std::span<double> sum, Sample s, int u, int p, bool r) {
            double of_use = 0;
            for (size_t e = 0; e < values.size(); ++e) {
              of_use += UseLoss(s, u, p, r, static_cast<int64_t>(e), Value(values[e]));
            }
            sum[0] += of_use;
          },
          Read<T>(parameters[i]), Update<double>(loss), sample, unit, static_cast<int>(i), reads);
    });
  }
}

void ToyModel::Recompute(device::Stream& stream, std::span<const Array> parameters) const {
  for (const Array& parameter : parameters) {
    ForDType(parameter.dtype(), [&](auto type) {
      using T = decltype(type);
      HostLaunch(
          stream, "toy recompute", [](std::span<const T>) {}, Read<T>(parameter));
    });
  }
}

void ToyModel::Backward(device::Stream& stream, int unit, std::span<const Array> parameters,
                        std::span<const model::GradientTarget> targets, const Sample& sample, Array loss_scale) const {
  const bool reads = units_[unit].backward_reads_parameters;
  for (size_t i = 0; i < targets.size(); ++i) {
    const Array& target = targets[i].array;
    if (target.empty()) continue;
    Pad(stream, target);
    const Array values = reads ? parameters[i] : Array();
    ForDType(values.dtype(), [&](auto value_type) {
      ForDType(target.dtype(), [&](auto gradient_type) {
        using V = decltype(value_type);
        using G = decltype(gradient_type);
        const auto kernel = [](std::span<const V> v, std::span<G> g, std::span<const float> scale, Sample s, int u, int q,
                               bool r, bool add) {
          for (size_t e = 0; e < g.size(); ++e) {
            const float x = scale[0] * UseGradient(s, u, q, r, static_cast<int64_t>(e), r ? Value(v[e]) : 0);
            Store(add ? Value(g[e]) + x : x, &g[e]);
          }
        };
        const int p = static_cast<int>(i);
        if (targets[i].accumulate) {
          HostLaunch(stream, "toy backward, added", kernel, Read<V>(values), Update<G>(target), Read<float>(loss_scale),
                     sample, unit, p, reads, true);
        } else {
          HostLaunch(stream, "toy backward", kernel, Read<V>(values), Write<G>(target), Read<float>(loss_scale), sample,
                     unit, p, reads, false);
        }
      });
    });
  }
}

}  // namespace zeroshard::zero::testing
