// Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024) on whole matrices: the momentum of a matrix,
// made nearly orthogonal by five steps of Newton-Schulz, is its update, times sqrt(max(1, rows / columns)).
//
// With x the direction, [rows, columns] of norm 1, a step is x <- p x, p = 3.4445 I - 4.7750 a + 2.0315 a^2, a = x x^T; where there are
// more rows than columns, on the other side: x <- x p, a = x^T x. Products are fp32. Matrices of one shape share their plans; scratch is
// of the largest matrix: two of it, and three of [n, n], n the smaller of its sides; filed under Use::kCommunication. What the products
// take of their own is filed under Use::kActivations, as a model's is.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto muon, Muon::Create(device, {{.rows = 1152, .columns = 384}}));
//   muon->Apply(stream, pass, {.rows = 1152, .columns = 384}, {.gradients = g, .scalars = s, .momentum = m, .weights = w});
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/gemm.h"
#include "zeroshard/device/step_kernels.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::optim {

struct MatrixShape {
  int64_t rows = 0;
  int64_t columns = 0;
};

// Arrays of one matrix, [rows * columns] each.
struct MuonUpdate {
  device::Array gradients = {};   // fp32, bf16 or fp16
  device::Array scalars = {};     // one StepScalars
  device::Array momentum = {};    // fp32; zeros before the first step
  device::Array weights = {};     // fp32
  device::Array write_back = {};  // bf16 or fp16, or empty
};

class Muon {
 public:
  // Plans and allocates for matrices of these shapes. `device` outlives it.
  // Errors: kResourceExhausted; the device's, for a product.
  static absl::StatusOr<std::unique_ptr<Muon>> Create(device::Device& device, const std::vector<MatrixShape>& shapes);

  // What Create takes for matrices of these shapes, beside its products.
  static int64_t ScratchBytes(const std::vector<MatrixShape>& shapes);

  // Queues one step of one matrix, whose shape Create was told. Where the scalars say skip, nothing is written.
  void Apply(device::Stream& stream, device::MuonPass pass, MatrixShape shape, const MuonUpdate& update);

 private:
  struct Plans {
    std::unique_ptr<device::Gemm> gram;    // a = x x^T, or x^T x
    std::unique_ptr<device::Gemm> square;  // a^2
    std::unique_ptr<device::Gemm> step;    // p x, or x p
  };
  explicit Muon(device::Device& device) : device_(&device) {}
  absl::Status Plan(MatrixShape shape);
  absl::Status Allocate(const std::vector<MatrixShape>& shapes);

  device::Device* device_;
  std::map<std::pair<int64_t, int64_t>, Plans> plans_;
  device::Buffer x_, next_, a_, squared_, p_;
};

}  // namespace zeroshard::optim
