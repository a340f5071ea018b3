#include "zeroshard/device/cuda/launch_test_kernels.h"

#include <cmath>

#include "zeroshard/device/cuda/launch.h"

namespace zeroshard::device::cuda {
namespace {

ZS_DEVICE void AxpyKernel(Thread t, size_t elements, float a, In<float> x, InOut<float> y) {
  for (size_t i = t.Global(); i < elements; i += t.Stride()) y[i] = fmaf(a, x[i], y[i]);
}

ZS_DEVICE void RowSumsKernel(Block& block, size_t width, In<float> x, Out<float> sums) {
  PerThread<float> part;
  block.ForEachThread([&](unsigned t) {
    float sum = 0;
    for (size_t i = t; i < width; i += block.threads()) sum += x[block.index() * width + i];
    part[t] = sum;
  });
  const float sum = block.Sum(part);
  block.ForEachThread([&](unsigned t) {
    if (t == 0) sums[block.index()] = sum;
  });
}

}  // namespace

cudaError_t Axpy(cudaStream_t stream, int64_t elements, float a, device::In x, device::InOut y) {
  return Launch<AxpyKernel>(stream, GridFor(elements), static_cast<size_t>(elements), a, Reads<float>(x), Updates<float>(y));
}

cudaError_t RowSums(cudaStream_t stream, int64_t width, device::In x, device::Out sums) {
  const Grid grid{static_cast<unsigned>(sums.array.elements()), 64};
  return LaunchBlocks<RowSumsKernel>(stream, grid, static_cast<size_t>(width), Reads<float>(x), Writes<float>(sums));
}

}  // namespace zeroshard::device::cuda
