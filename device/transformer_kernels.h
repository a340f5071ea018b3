// Kernels of the transformer: embedding, normalisation, GELU, the chunked softmax of the loss.
#pragma once

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

class TransformerKernels {
 public:
  virtual ~TransformerKernels() = default;
};

}  // namespace zeroshard::device
