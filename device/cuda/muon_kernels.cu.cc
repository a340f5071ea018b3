// Muon's passes beside its products (optimizer_kernels.h). The norm of a direction is the exact one, so that no grid shows in it.
#include <cmath>
#include <cstdint>

#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/cuda/norm_kernels.h"
#include "zeroshard/device/cuda/optimizer_kernels.h"
#include "zeroshard/device/dtype_visitor.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/muon_numbers.h"
#include "zeroshard/device/step_scalars.h"

namespace zeroshard::device::cuda {
namespace {

ZS_DEVICE void ZeroKernel(Thread t, Out<int64_t> words) {
  for (size_t i = t.Global(); i < words.n; i += t.Stride()) words[i] = 0;
}

// The direction before it is divided by its norm.
template <class Gradient>
ZS_DEVICE void MomentumKernel(Thread t, bool aligned, MuonPass pass, In<Gradient> gradients, In<StepScalars> scalars,
                              InOut<float> momentum_buffer, Out<float> direction) {
  const bool skip = scalars[0].skip != 0;
  const auto multiplier = static_cast<float>(scalars[0].gradient_multiplier);
  const auto momentum = static_cast<float>(pass.momentum);
  ForLanes(t, static_cast<int64_t>(direction.n), aligned, [&](auto lanes, int64_t i) {
    if (skip) return Store(Lanes<float, lanes()>{}, direction, i);
    auto out = Load<lanes()>(gradients, i);
    auto buffer = Load<lanes()>(momentum_buffer, i);
    for (int j = 0; j < lanes(); ++j) {
      const float gradient = out.v[j] * multiplier;
      buffer.v[j] = fmaf(momentum, buffer.v[j], gradient);
      out.v[j] = pass.nesterov ? fmaf(momentum, buffer.v[j], gradient) : buffer.v[j];
    }
    Store(buffer, momentum_buffer, i);
    Store(out, direction, i);
  });
}

ZS_DEVICE void DivideKernel(Block& b, bool aligned, In<int64_t> words, InOut<float> direction) {
  ZS_SHARED(float, scale, 1);
  b.ForEachThread([&](unsigned t) {
    if (t == 0) scale[0] = static_cast<float>(1 / (std::sqrt(exact_sum::Value(&words[0])) + kMuonNormEpsilon));
  });
  const float by = scale[0];
  ForLanes(b, static_cast<int64_t>(direction.n), aligned, [&](auto lanes, int64_t i) {
    auto v = Load<lanes()>(direction, i);
    for (auto& element : v.v) element *= by;
    Store(v, direction, i);
  });
}

ZS_DEVICE void PolynomialKernel(Thread t, int64_t n, In<float> a, In<float> a_squared, Out<float> p) {
  for (auto i = static_cast<int64_t>(t.Global()); i < n * n; i += static_cast<int64_t>(t.Stride())) {
    const auto at = static_cast<size_t>(i);
    const float sum = fmaf(kMuonB, a[at], kMuonC * a_squared[at]);
    p[at] = i % (n + 1) == 0 ? sum + kMuonA : sum;
  }
}

template <class Narrow>
ZS_DEVICE void ApplyKernel(Thread t, bool aligned, MuonPass pass, In<float> direction, In<StepScalars> scalars,
                           InOut<float> weights, Out<Narrow> write_back) {
  if (scalars[0].skip) return;
  const double lr = scalars[0].learning_rate * pass.learning_rate_scale;
  const auto decay = static_cast<float>(lr * pass.weight_decay), step = static_cast<float>(lr * pass.shape_scale);
  ForLanes(t, static_cast<int64_t>(weights.n), aligned, [&](auto lanes, int64_t i) {
    const auto d = Load<lanes()>(direction, i);
    auto w = Load<lanes()>(weights, i);
    for (int j = 0; j < lanes(); ++j) w.v[j] -= fmaf(decay, w.v[j], step * d.v[j]);
    Store(w, weights, i);
    if (write_back.n != 0) Store(w, write_back, i);
  });
}

}  // namespace

cudaError_t MuonDirection(cudaStream_t stream, const MuonPass& pass, const Array& gradients, const Array& scalars,
                          const Array& momentum_buffer, const Array& direction, const Array& words) {
  if (direction.empty()) return cudaSuccess;
  cudaError_t error = Launch<ZeroKernel>(stream, Grid{1, 128}, Writes<int64_t>(words));
  if (error != cudaSuccess) return error;
  const Grid grid = GridForFours(direction.elements());
  VisitActivation(gradients.dtype(), [&]<class Gradient>(TypeTag<Gradient>) {
    error = Launch<MomentumKernel<Gradient>>(stream, grid, Aligned({gradients, momentum_buffer, direction}), pass,
                                             Reads<Gradient>(gradients), Reads<StepScalars>(scalars),
                                             Updates<float>(momentum_buffer), Writes<float>(direction));
  });
  if (error != cudaSuccess) return error;
  error = AddPowers(stream, direction, OnePiece(direction.elements()), 2, words);
  if (error != cudaSuccess) return error;
  return LaunchBlocks<DivideKernel>(stream, grid, Aligned({direction}), Reads<int64_t>(words), Updates<float>(direction));
}

cudaError_t MuonPolynomial(cudaStream_t stream, const Array& a, const Array& a_squared, const Array& p) {
  if (p.empty()) return cudaSuccess;
  const int64_t n = std::lround(std::sqrt(static_cast<double>(p.elements())));
  return Launch<PolynomialKernel>(stream, GridForFours(p.elements()), n, Reads<float>(a), Reads<float>(a_squared),
                                  Writes<float>(p));
}

cudaError_t MuonApply(cudaStream_t stream, const MuonPass& pass, const Array& direction, const Array& scalars,
                      const Array& weights, const Array& write_back) {
  if (weights.empty()) return cudaSuccess;
  const bool aligned = Aligned({direction, weights}) && (write_back.empty() || Aligned({write_back}));
  const Grid grid = GridForFours(weights.elements());
  cudaError_t error = cudaSuccess;
  VisitActivation(write_back.dtype(), [&]<class Narrow>(TypeTag<Narrow>) {
    error = Launch<ApplyKernel<Narrow>>(stream, grid, aligned, pass, Reads<float>(direction), Reads<StepScalars>(scalars),
                                        Updates<float>(weights), Writes<Narrow>(write_back));
  });
  return error;
}

}  // namespace zeroshard::device::cuda
