// A model of this program's own: two layers, y = W2 gelu(W1 x + b1) + b2, with the mean squared error as its loss.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/model/unit.h"

namespace device = zeroshard::device;

struct MlpShape {
  int64_t rows = 0;  // of a batch, on this rank
  int64_t inputs = 0;
  int64_t hidden = 0;
  int64_t outputs = 0;
};

class Mlp {
 public:
  // What ZeRO gathers, reduces and drops as one: a layer.
  static std::vector<zeroshard::model::UnitSpec> Units(const MlpShape& shape);
  static absl::StatusOr<std::unique_ptr<Mlp>> Create(device::Device& device, const MlpShape& shape);

  // Queue a layer, forward (the last one with the loss) and backward.
  void Forward(device::Stream& stream, int unit, std::span<const device::Array> parameters);
  void Backward(device::Stream& stream, int unit, std::span<const device::Array> parameters,
                std::span<const zeroshard::model::GradientTarget> gradients);

  device::Array x, target;  // [rows, inputs], [rows, outputs]: the batch
  device::Array loss;       // [1]

 private:
  std::vector<device::Buffer> buffers_;
  std::unique_ptr<device::Gemm> forward_[2], d_weight_[2], d_hidden_;
  device::Array before_, after_, d_after_, partials_;  // [rows, hidden]: GELU's input, its output, that one's gradient
  device::Array y_, d_y_;                              // [rows, outputs]
};
