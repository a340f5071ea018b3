#include "zeroshard/device/cuda/optimizer_kernels.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "zeroshard/device/cuda/fours.h"
#include "zeroshard/device/cuda/grid_of_pieces.h"
#include "zeroshard/device/cuda/lanes.h"
#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/dtype_visitor.h"
#include "zeroshard/device/optimizer_factors.h"

namespace zeroshard::device::cuda {
namespace {

// The new weights to where they live and, rounded, to where they are used. Narrow is float where nothing is written back.
template <class Narrow, int kLanes>
ZS_DEVICE void StoreWeights(const Lanes<float, kLanes>& w, const InOut<float>& weights, const Out<Narrow>& write_back,
                            int64_t i) {
  Store(w, weights, i);
  if constexpr (!std::is_same_v<Narrow, float>) Store(w, write_back, i);
}

template <class Gradient, class Narrow>
ZS_DEVICE void AdamKernel(Block& b, bool aligned, const Pieces<AdamPass>& pieces, In<Gradient> gradients,
                          In<StepScalars> scalars, InOut<float> weights, InOut<float> exp_avg, InOut<float> exp_avg_sq,
                          Out<Narrow> write_back) {
  if (scalars[0].skip) return;
  ZS_SHARED(AdamFactors, factors, Pieces<AdamPass>::kMost);
  b.ForEachThread([&](unsigned t) {
    if (static_cast<int>(t) < pieces.size()) factors[t] = MakeAdamFactors(pieces[static_cast<int>(t)].of, scalars[0]);
  });
  const auto step = [&](const AdamFactors& f, auto lanes, int64_t i) {
    const auto gradient = Load<lanes()>(gradients, i);
    auto w = Load<lanes()>(weights, i), m = Load<lanes()>(exp_avg, i), v = Load<lanes()>(exp_avg_sq, i);
    for (int j = 0; j < lanes(); ++j) {
      float g = gradient.v[j] * f.gradient_multiplier;
      if (!f.decoupled) g = fmaf(f.decay, w.v[j], g);
      m.v[j] = fmaf(f.one_minus_beta1, g - m.v[j], m.v[j]);
      v.v[j] = fmaf(f.one_minus_beta2, fmaf(g, g, -v.v[j]), v.v[j]);
      const float u = m.v[j] / fmaf(sqrtf(v.v[j]), f.root_scale, f.eps);
      // The small terms first: 1 - lr * weight_decay would round the decay away.
      w.v[j] = f.decoupled ? w.v[j] - fmaf(f.decay, w.v[j], f.step_size * u) : fmaf(-f.step_size, u, w.v[j]);
    }
    Store(m, exp_avg, i);
    Store(v, exp_avg_sq, i);
    StoreWeights(w, weights, write_back, i);
  };
  b.ForEachThread([&](unsigned t) {
    ForEachPiece(b, pieces, [&](int p, int64_t chunk) {
      const AdamFactors f = factors[static_cast<unsigned>(p)];
      ForLanesOfPiece(b, t, pieces[p], chunk, aligned, [&](auto lanes, int64_t i) { step(f, lanes, i); });
    });
  });
}

template <class Gradient, class Narrow>
ZS_DEVICE void SgdKernel(Block& b, bool aligned, const Pieces<SgdPass>& pieces, In<Gradient> gradients,
                         In<StepScalars> scalars, InOut<float> weights, InOut<float> momentum_buffer,
                         Out<Narrow> write_back) {
  if (scalars[0].skip) return;
  ZS_SHARED(SgdFactors, factors, Pieces<SgdPass>::kMost);
  b.ForEachThread([&](unsigned t) {
    if (static_cast<int>(t) < pieces.size()) factors[t] = MakeSgdFactors(pieces[static_cast<int>(t)].of, scalars[0]);
  });
  const bool has_momentum = momentum_buffer.n != 0;
  const auto step = [&](const SgdFactors& f, auto lanes, int64_t i) {
    auto u = Load<lanes()>(gradients, i);
    auto w = Load<lanes()>(weights, i);
    for (int j = 0; j < lanes(); ++j) u.v[j] = fmaf(f.decay, w.v[j], u.v[j] * f.gradient_multiplier);
    if (has_momentum) {
      auto buffer = Load<lanes()>(momentum_buffer, i);
      for (int j = 0; j < lanes(); ++j) {
        buffer.v[j] = fmaf(f.momentum, buffer.v[j], u.v[j]);
        u.v[j] = f.nesterov ? fmaf(f.momentum, buffer.v[j], u.v[j]) : buffer.v[j];
      }
      Store(buffer, momentum_buffer, i);
    }
    for (int j = 0; j < lanes(); ++j) w.v[j] = fmaf(-f.step_size, u.v[j], w.v[j]);
    StoreWeights(w, weights, write_back, i);
  };
  b.ForEachThread([&](unsigned t) {
    ForEachPiece(b, pieces, [&](int p, int64_t chunk) {
      const SgdFactors f = factors[static_cast<unsigned>(p)];
      ForLanesOfPiece(b, t, pieces[p], chunk, aligned, [&](auto lanes, int64_t i) { step(f, lanes, i); });
    });
  });
}

// Calls run(TypeTag of gradients, TypeTag of what is written back: float where nothing is).
template <class Run>
void VisitPass(const Array& gradients, const Array& write_back, const Run& run) {
  VisitActivation(gradients.dtype(), [&](auto gradient) {
    if (write_back.empty()) return run(gradient, TypeTag<float>());
    VisitActivation(write_back.dtype(), [&](auto narrow) { run(gradient, narrow); });
  });
}

bool AllAligned(const PassArrays& a) {
  return Aligned({a.gradients, a.weights, a.first, a.second}) && (a.write_back.empty() || Aligned({a.write_back}));
}

}  // namespace

cudaError_t Adam(cudaStream_t stream, const Pieces<AdamPass>& pieces, const PassArrays& a) {
  if (a.weights.empty()) return cudaSuccess;
  const bool aligned = AllAligned(a) && Aligned(pieces);
  cudaError_t error = cudaSuccess;
  VisitPass(a.gradients, a.write_back, [&]<class Gradient, class Narrow>(TypeTag<Gradient>, TypeTag<Narrow>) {
    error = LaunchBlocks<AdamKernel<Gradient, Narrow>>(
        stream, GridFor(pieces), aligned, pieces, Reads<Gradient>(a.gradients), Reads<StepScalars>(a.scalars),
        Updates<float>(a.weights), Updates<float>(a.first), Updates<float>(a.second), Writes<Narrow>(a.write_back));
  });
  return error;
}

cudaError_t Sgd(cudaStream_t stream, const Pieces<SgdPass>& pieces, const PassArrays& a) {
  if (a.weights.empty()) return cudaSuccess;
  const bool aligned = AllAligned(a) && Aligned(pieces);
  cudaError_t error = cudaSuccess;
  VisitPass(a.gradients, a.write_back, [&]<class Gradient, class Narrow>(TypeTag<Gradient>, TypeTag<Narrow>) {
    error = LaunchBlocks<SgdKernel<Gradient, Narrow>>(stream, GridFor(pieces), aligned, pieces, Reads<Gradient>(a.gradients),
                                                      Reads<StepScalars>(a.scalars), Updates<float>(a.weights),
                                                      Updates<float>(a.first), Writes<Narrow>(a.write_back));
  });
  return error;
}

}  // namespace zeroshard::device::cuda
