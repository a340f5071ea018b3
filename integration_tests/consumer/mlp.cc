#include "mlp.h"

#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/status_macros.h"

using device::Array;
using device::WriteMode;
using zeroshard::model::GradientTarget;
using zeroshard::model::UnitSpec;

std::vector<UnitSpec> Mlp::Units(const MlpShape& s) {
  return {{.name = "hidden",
           .parameters = {{.name = "hidden.weight", .shape = {s.hidden, s.inputs}},
                          {.name = "hidden.bias", .shape = {s.hidden}}},
           .backward_reads_parameters = false},
          {.name = "output",
           .parameters = {{.name = "output.weight", .shape = {s.outputs, s.hidden}},
                          {.name = "output.bias", .shape = {s.outputs}}}}};
}

absl::StatusOr<std::unique_ptr<Mlp>> Mlp::Create(device::Device& device, const MlpShape& s) {
  auto mlp = std::make_unique<Mlp>();
  const auto plan = [&](std::unique_ptr<device::Gemm>& gemm, const device::GemmSpec& spec) -> absl::Status {
    ZS_ASSIGN_OR_RETURN(gemm, device.PlanGemm(spec));
    return absl::OkStatus();
  };
  ZS_RETURN_IF_ERROR(plan(mlp->forward_[0], {.m = s.rows, .k = s.inputs, .n = s.hidden, .transpose_b = true, .bias = true}));
  ZS_RETURN_IF_ERROR(
      plan(mlp->forward_[1], {.m = s.rows, .k = s.hidden, .n = s.outputs, .transpose_b = true, .bias = true}));
  ZS_RETURN_IF_ERROR(plan(mlp->d_weight_[0], {.m = s.hidden, .k = s.rows, .n = s.inputs, .transpose_a = true}));
  ZS_RETURN_IF_ERROR(plan(mlp->d_weight_[1], {.m = s.outputs, .k = s.rows, .n = s.hidden, .transpose_a = true}));
  ZS_RETURN_IF_ERROR(plan(mlp->d_hidden_, {.m = s.rows, .k = s.outputs, .n = s.hidden}));
  const std::pair<Array*, int64_t> memory[] = {{&mlp->x, s.rows * s.inputs},
                                               {&mlp->target, s.rows * s.outputs},
                                               {&mlp->before_, s.rows * s.hidden},
                                               {&mlp->after_, s.rows * s.hidden},
                                               {&mlp->d_after_, s.rows * s.hidden},
                                               {&mlp->partials_, device::PartialRows(s.rows) * s.hidden},
                                               {&mlp->y_, s.rows * s.outputs},
                                               {&mlp->d_y_, s.rows * s.outputs},
                                               {&mlp->loss, 1}};
  for (const auto& [array, elements] : memory) {
    ZS_ASSIGN_OR_RETURN(device::Buffer buffer, device.Allocate(4 * elements, device::Use::kActivations, "mlp"));
    *array = buffer.array(device::DType::kFloat32);
    mlp->buffers_.push_back(std::move(buffer));
  }
  return mlp;
}

void Mlp::Forward(device::Stream& stream, int unit, std::span<const Array> parameters) {
  if (unit == 0) {
    forward_[0]->Run(stream, x, parameters[0], before_, parameters[1]);
    return stream.device().transformer().Gelu(stream, before_, after_);
  }
  forward_[1]->Run(stream, after_, parameters[0], y_, parameters[1]);
  // A kernel of this program's own.
  const auto squared_error = [](std::span<const float> y, std::span<const float> t, std::span<float> d,
                                std::span<float> sum) {
    const float scale = 1 / static_cast<float>(y.size());
    sum[0] = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      sum[0] += scale * (y[i] - t[i]) * (y[i] - t[i]);
      d[i] = 2 * scale * (y[i] - t[i]);
    }
  };
  device::HostLaunch(stream, "squared_error", squared_error, device::Read<float>(y_), device::Read<float>(target),
                     device::Write<float>(d_y_), device::Write<float>(loss));
}

void Mlp::Backward(device::Stream& stream, int unit, std::span<const Array> parameters,
                   std::span<const GradientTarget> gradients) {
  device::TransformerKernels& kernels = stream.device().transformer();
  if (unit == 1) {
    d_weight_[1]->Run(stream, d_y_, after_, gradients[0].array);
    kernels.SumRows(stream, d_y_, gradients[1].array, WriteMode::kOverwrite);
    d_hidden_->Run(stream, d_y_, parameters[0], d_after_);
  } else {
    kernels.GeluBackward(stream, before_, d_after_, partials_, gradients[1].array.elements());
    d_weight_[0]->Run(stream, d_after_, x, gradients[0].array);
    kernels.SumRows(stream, partials_, gradients[1].array, WriteMode::kOverwrite);
  }
}
