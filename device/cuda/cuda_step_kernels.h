// CudaStepKernels: the kernels of a step's end of device/cuda, with the bits of device/cpu's.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Buffer scratch, device.Allocate(kStepScratchBytes, Use::kCommunication, "step kernels"));
//   CudaStepKernels step(scratch.array(DType::kUint8));
//   step.AddPowers(stream, gradients, parts, 2, sum);          // a CudaStream
#pragma once

#include <cstdint>
#include <optional>

#include "zeroshard/device/step_kernels.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device::cuda {

class CudaStepKernels final : public StepKernels {
 public:
  // `scratch`: kStepScratchBytes of the device's memory, which outlive this. Two streams of one kind do not run Muon at a time.
  explicit CudaStepKernels(const Array& scratch) : scratch_(scratch.As(DType::kInt64)) {}

  void AddPowers(Stream& stream, device::In x, const Pieces<Plain>& pieces, double p, device::InOut sum) override;
  void MaxMagnitude(Stream& stream, device::In x, const Pieces<int>& pieces, device::InOut largest) override;
  void DeriveScalars(Stream& stream, device::In sum, const StepRule& rule, std::optional<double> learning_rate,
                     device::InOut scalars) override;
  void Adam(Stream& stream, const Pieces<AdamPass>& pieces, device::In gradients, device::In scalars, device::InOut weights,
            device::InOut exp_avg, device::InOut exp_avg_sq, device::Out write_back) override;
  void Sgd(Stream& stream, const Pieces<SgdPass>& pieces, device::In gradients, device::In scalars, device::InOut weights,
           device::InOut momentum_buffer, device::Out write_back) override;
  void MuonDirection(Stream& stream, const MuonPass& pass, device::In gradients, device::In scalars,
                     device::InOut momentum_buffer, device::Out direction) override;
  void MuonPolynomial(Stream& stream, device::In a, device::In a_squared, device::Out p) override;
  void MuonApply(Stream& stream, const MuonPass& pass, device::In direction, device::In scalars, device::InOut weights,
                 device::Out write_back) override;

 private:
  const Array scratch_;
};

}  // namespace zeroshard::device::cuda
