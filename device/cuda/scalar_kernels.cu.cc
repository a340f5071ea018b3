#include "zeroshard/device/cuda/scalar_kernels.h"

#include <optional>

#include "zeroshard/device/cuda/launch.h"
#include "zeroshard/device/exact_sum.h"

namespace zeroshard::device::cuda {
namespace {

ZS_DEVICE void DeriveKernel(Thread, StepRule rule, std::optional<double> learning_rate, In<int64_t> sum,
                            InOut<StepScalars> scalars) {
  const int64_t* words = &sum[0];
  scalars[0] = NextScalars(scalars[0], exact_sum::Value(words), exact_sum::NonFinite(words), rule, learning_rate);
}

}  // namespace

cudaError_t DeriveScalars(cudaStream_t stream, const Array& sum, const StepRule& rule, std::optional<double> learning_rate,
                          const Array& scalars) {
  return Launch<DeriveKernel>(stream, Grid{1, 1}, rule, learning_rate, Reads<int64_t>(sum), Updates<StepScalars>(scalars));
}

}  // namespace zeroshard::device::cuda
