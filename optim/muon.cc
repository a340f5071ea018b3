#include "zeroshard/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "absl/memory/memory.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::optim {

using device::Array;
using device::DType;

namespace {

constexpr int kNewtonSchulzSteps = 5;
constexpr int64_t kFp32Bytes = device::SizeOf(DType::kFloat32);

// Elements of the largest matrix, and of the largest product of one with itself.
struct Scratch {
  int64_t matrix = 0;
  int64_t square = 0;
};

Scratch ScratchOf(const std::vector<MatrixShape>& shapes) {
  Scratch scratch;
  for (const MatrixShape& shape : shapes) {
    const int64_t n = std::min(shape.rows, shape.columns);
    scratch.matrix = std::max(scratch.matrix, shape.rows * shape.columns);
    scratch.square = std::max(scratch.square, n * n);
  }
  return scratch;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Muon>> Muon::Create(device::Device& device, const std::vector<MatrixShape>& shapes) {
  auto muon = absl::WrapUnique(new Muon(device));
  const int64_t before = device.ledger().now(device::Use::kActivations);
  for (const MatrixShape& shape : shapes) ZS_RETURN_IF_ERROR(muon->Plan(shape));
  // What products take is their vendor's to say.
  device.ledger().Predict(device::Use::kActivations, device.ledger().now(device::Use::kActivations) - before);
  ZS_RETURN_IF_ERROR(muon->Allocate(shapes));
  return muon;
}

absl::Status Muon::Plan(MatrixShape shape) {
  const int64_t r = shape.rows, c = shape.columns, n = std::min(r, c);
  Plans& plans = plans_[{r, c}];
  if (plans.gram != nullptr) return absl::OkStatus();
  const bool wide = r <= c;
  ZS_ASSIGN_OR_RETURN(plans.gram,
                      device_->PlanGemm({.m = n, .k = std::max(r, c), .n = n, .transpose_a = !wide, .transpose_b = wide}));
  ZS_ASSIGN_OR_RETURN(plans.square, device_->PlanGemm({.m = n, .k = n, .n = n}));
  ZS_ASSIGN_OR_RETURN(plans.step, device_->PlanGemm({.m = r, .k = n, .n = c}));
  return absl::OkStatus();
}

absl::Status Muon::Allocate(const std::vector<MatrixShape>& shapes) {
  const Scratch scratch = ScratchOf(shapes);
  for (device::Buffer* buffer : {&x_, &next_, &a_, &squared_, &p_}) {
    const int64_t elements = buffer == &x_ || buffer == &next_ ? scratch.matrix : scratch.square;
    ZS_ASSIGN_OR_RETURN(*buffer, device_->Allocate(elements * kFp32Bytes, device::Use::kCommunication, "muon"));
  }
  return absl::OkStatus();
}

int64_t Muon::ScratchBytes(const std::vector<MatrixShape>& shapes) {
  const Scratch scratch = ScratchOf(shapes);
  return (2 * scratch.matrix + 3 * scratch.square) * kFp32Bytes;
}

void Muon::Apply(device::Stream& stream, device::MuonPass pass, MatrixShape shape, const MuonUpdate& update) {
  const int64_t r = shape.rows, c = shape.columns, n = std::min(r, c);
  if (r * c == 0) return;
  Plans& plans = plans_.find({r, c})->second;
  pass.shape_scale = std::sqrt(std::max(1.0, static_cast<double>(r) / static_cast<double>(c)));
  const auto of = [](const device::Buffer& buffer, int64_t elements) {
    return buffer.array(DType::kFloat32).Slice(0, elements);
  };
  const Array a = of(a_, n * n), squared = of(squared_, n * n), p = of(p_, n * n);
  Array x = of(x_, r * c), next = of(next_, r * c);
  device_->step().MuonDirection(stream, pass, update.gradients, update.scalars, update.momentum, x);
  for (int i = 0; i < kNewtonSchulzSteps; ++i) {
    plans.gram->Run(stream, x, x, a);
    plans.square->Run(stream, a, a, squared);
    device_->step().MuonPolynomial(stream, a, squared, p);
    plans.step->Run(stream, r <= c ? p : x, r <= c ? x : p, next);
    std::swap(x, next);
  }
  device_->step().MuonApply(stream, pass, x, update.scalars, update.weights, update.write_back);
}

}  // namespace zeroshard::optim
