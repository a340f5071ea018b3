// Kernels of a training step's end: the exact norm, the step's scalars, the optimizers' fused passes.
#pragma once

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

class StepKernels {
 public:
  virtual ~StepKernels() = default;
};

}  // namespace zeroshard::device
