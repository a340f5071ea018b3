// CpuTransformerKernels: TransformerKernels on host memory, for device/cpu and device/late.
#pragma once

#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device {

class CpuTransformerKernels final : public TransformerKernels {
 public:
  explicit CpuTransformerKernels(int threads) : threads_(threads) {}

 private:
  [[maybe_unused]] const int threads_;
};

}  // namespace zeroshard::device
