#include "zeroshard/device/cuda/cuda_elementwise.h"

#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/elementwise_kernels.h"
#include "zeroshard/device/kernel_checks.h"

namespace zeroshard::device::cuda {

void CudaElementwise::Fill(Stream& stream, device::Out y, double value) {
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::Fill(on.native(), y.array, value), "fill");
}

void CudaElementwise::Copy(Stream& stream, device::In x, device::Out y) {
  kernel_checks::Copy(x.array, y.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::Copy(on.native(), x.array, y.array), "copy");
}

void CudaElementwise::Convert(Stream& stream, device::In x, device::Out y) {
  kernel_checks::Convert(x.array, y.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::Convert(on.native(), x.array, y.array), "convert");
}

void CudaElementwise::Accumulate(Stream& stream, device::In x, device::InOut y) {
  kernel_checks::Accumulate(x.array, y.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::Accumulate(on.native(), x.array, y.array), "accumulate");
}

void CudaElementwise::Scale(Stream& stream, device::InOut y, double factor) {
  kernel_checks::Scale(y.array);
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::Scale(on.native(), y.array, factor), "scale");
}

}  // namespace zeroshard::device::cuda
