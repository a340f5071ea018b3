// One linear layer, y = x W^T + b with W stored as [out, in]: its products forward and backward, planned once for one number of rows.
// All sums are taken in fp32.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Linear fc, Linear::Plan(device, {.rows = 1024, .in = 384, .out = 1536}));
//   fc.Forward(stream, x, weight, bias, y);
//   fc.WeightGradient(stream, d_y, x, target.array, WriteMode::kOverwrite);
//   fc.InputGradient(stream, d_y, weight, d_x);
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"

namespace zeroshard::model {

struct LinearSpec {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  bool gelu = false;                                       // goes through GELU: ForwardGelu in place of Forward
  bool add_to_output = false;                              // y += x W^T + b
  bool add_to_input_gradient = false;                      // d_x += d_y W
  int64_t out_stride = 0;                                  // elements from a row of y, and of d_y, to the next; 0: out
  device::DType dtype = device::DType::kFloat32;           // of x, W, b and d_y
  device::DType output = device::DType::kFloat32;          // of y
  device::DType input_gradient = device::DType::kFloat32;  // of d_x
  device::DType gradient = device::DType::kFloat32;        // of d_weight
};

class Linear {
 public:
  // Errors: as Device::PlanGemm.
  static absl::StatusOr<Linear> Plan(device::Device& device, const LinearSpec& spec);

  // y [rows, out] (+)= x [rows, in] W^T + b; `bias` is empty where the layer has none.
  void Forward(device::Stream& stream, device::In x, device::In weight, device::In bias, device::InOut y) const;
  // y, and GELU(y), of a layer with spec.gelu.
  void ForwardGelu(device::Stream& stream, device::In x, device::In weight, device::In bias, device::Out y,
                   device::Out activated) const;
  // y alone, again: the same bits. `scratch` is of y's size.
  void ForwardGeluInput(device::Stream& stream, device::In x, device::In weight, device::In bias, device::Out y,
                        device::Out scratch) const;
  // d_x [rows, in] (+)= d_y W.
  void InputGradient(device::Stream& stream, device::In d_y, device::In weight, device::InOut d_x) const;
  // d_weight [out, in] (+)= d_y^T x.
  void WeightGradient(device::Stream& stream, device::In d_y, device::In x, device::InOut d_weight,
                      device::WriteMode mode) const;

 private:
  std::unique_ptr<device::Gemm> forward_;  // this or the next
  std::unique_ptr<device::GeluGemm> forward_gelu_;
  std::unique_ptr<device::Gemm> input_gradient_;
  std::unique_ptr<device::Gemm> weight_gradient_;
  std::unique_ptr<device::Gemm> added_weight_gradient_;
};

}  // namespace zeroshard::model
