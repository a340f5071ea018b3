// CpuStepKernels: StepKernels on host memory, for device/cpu and device/late.
//
// Example:
//   CpuStepKernels step(/*threads=*/1);
//   step.AddPowers(stream, gradients, OnePiece(gradients.elements()), 2, sum);
#pragma once

#include <optional>

#include "zeroshard/device/step_kernels.h"

namespace zeroshard::device {

class CpuStepKernels final : public StepKernels {
 public:
  explicit CpuStepKernels(int threads) : threads_(threads) {}

  void AddPowers(Stream& stream, In x, const Pieces<Plain>& pieces, double p, InOut sum) override;
  void MaxMagnitude(Stream& stream, In x, const Pieces<int>& pieces, InOut largest) override;
  void DeriveScalars(Stream& stream, In sum, const StepRule& rule, std::optional<double> learning_rate,
                     InOut scalars) override;
  void Adam(Stream& stream, const Pieces<AdamPass>& pieces, In gradients, In scalars, InOut weights, InOut exp_avg,
            InOut exp_avg_sq, Out write_back) override;
  void MuonDirection(Stream& stream, const MuonPass& pass, In gradients, In scalars, InOut momentum_buffer,
                     Out direction) override;
  void MuonPolynomial(Stream& stream, In a, In a_squared, Out p) override;
  void MuonApply(Stream& stream, const MuonPass& pass, In direction, In scalars, InOut weights, Out write_back) override;
  void Sgd(Stream& stream, const Pieces<SgdPass>& pieces, In gradients, In scalars, InOut weights, InOut momentum_buffer,
           Out write_back) override;

 private:
  [[maybe_unused]] const int threads_;
};

}  // namespace zeroshard::device
