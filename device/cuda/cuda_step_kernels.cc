#include "zeroshard/device/cuda/cuda_step_kernels.h"

#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/norm_kernels.h"
#include "zeroshard/device/cuda/optimizer_kernels.h"
#include "zeroshard/device/cuda/scalar_kernels.h"
#include "zeroshard/device/exact_sum.h"

namespace zeroshard::device::cuda {

void CudaStepKernels::AddPowers(Stream& stream, device::In x, const Pieces<Plain>& pieces, double p, device::InOut sum) {
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::AddPowers(on.native(), x.array, pieces, p, sum.array), "the norm");
}

void CudaStepKernels::MaxMagnitude(Stream& stream, device::In x, const Pieces<int>& pieces, device::InOut largest) {
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::MaxMagnitude(on.native(), x.array, pieces, largest.array), "the largest magnitude");
}

void CudaStepKernels::DeriveScalars(Stream& stream, device::In sum, const StepRule& rule,
                                    std::optional<double> learning_rate, device::InOut scalars) {
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::DeriveScalars(on.native(), sum.array, rule, learning_rate, scalars.array), "the step's scalars");
}

void CudaStepKernels::Adam(Stream& stream, const Pieces<AdamPass>& pieces, device::In gradients, device::In scalars,
                           device::InOut weights, device::InOut exp_avg, device::InOut exp_avg_sq, device::Out write_back) {
  CudaStream& on = CudaStream::Of(stream);
  const PassArrays arrays{.gradients = gradients.array,
                          .scalars = scalars.array,
                          .weights = weights.array,
                          .first = exp_avg.array,
                          .second = exp_avg_sq.array,
                          .write_back = write_back.array};
  on.Keep(cuda::Adam(on.native(), pieces, arrays), "Adam");
}

void CudaStepKernels::Sgd(Stream& stream, const Pieces<SgdPass>& pieces, device::In gradients, device::In scalars,
                          device::InOut weights, device::InOut momentum_buffer, device::Out write_back) {
  CudaStream& on = CudaStream::Of(stream);
  const PassArrays arrays{.gradients = gradients.array,
                          .scalars = scalars.array,
                          .weights = weights.array,
                          .first = momentum_buffer.array,
                          .write_back = write_back.array};
  on.Keep(cuda::Sgd(on.native(), pieces, arrays), "SGD");
}

void CudaStepKernels::MuonDirection(Stream& stream, const MuonPass& pass, device::In gradients, device::In scalars,
                                    device::InOut momentum_buffer, device::Out direction) {
  CudaStream& on = CudaStream::Of(stream);
  const Array words = scratch_.Slice(static_cast<int64_t>(stream.kind()) * kExactSumWords, kExactSumWords);
  on.Keep(
      cuda::MuonDirection(on.native(), pass, gradients.array, scalars.array, momentum_buffer.array, direction.array, words),
      "Muon's direction");
}

void CudaStepKernels::MuonPolynomial(Stream& stream, device::In a, device::In a_squared, device::Out p) {
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::MuonPolynomial(on.native(), a.array, a_squared.array, p.array), "Muon's polynomial");
}

void CudaStepKernels::MuonApply(Stream& stream, const MuonPass& pass, device::In direction, device::In scalars,
                                device::InOut weights, device::Out write_back) {
  CudaStream& on = CudaStream::Of(stream);
  on.Keep(cuda::MuonApply(on.native(), pass, direction.array, scalars.array, weights.array, write_back.array),
          "Muon's update");
}

}  // namespace zeroshard::device::cuda
