#include "zeroshard/zero/step_end.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/holding.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;
using device::Use;

namespace {

constexpr int64_t kScalarsBytes = sizeof(device::StepScalars);
constexpr int64_t kSignatureBytes = sizeof(int64_t);
constexpr int64_t kSumBytes = device::kExactSumWords * SizeOf(DType::kInt64) + kSignatureBytes;

}  // namespace

double GradientScale(const EngineOptions& options, int world_size) {
  return options.average ? 1.0 / (static_cast<double>(world_size) * options.accumulation) : options.gradient_scale;
}

absl::StatusOr<std::unique_ptr<StepEnd>> StepEnd::Create(comm::Communicator& communicator, const Layout& layout,
                                                         const EngineOptions& options, device::Stream& compute) {
  std::unique_ptr<StepEnd> end(new StepEnd(communicator, layout, options, compute));
  ZS_RETURN_IF_ERROR(end->Allocate());
  return end;
}

StepEnd::StepEnd(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                 device::Stream& compute)
    : communicator_(&communicator),
      layout_(&layout),
      options_(&options),
      compute_(&compute),
      rule_(optim::MakeStepRule(options.optimizer, GradientScale(options, layout.world_size()), options.clip)),
      summed_(communicator.device().MakeEvent()),
      copied_(communicator.device().MakeEvent()) {}

absl::Status StepEnd::Allocate() {
  device::Device& device = communicator_->device();
  const int rank = communicator_->rank();
  for (int s = 0; s < layout_->trainable_sections(); ++s) {
    const Range held = HoldingOf(*layout_, options_->stage, rank, s).range;
    for (int p : layout_->sections()[s].parameters) {
      const Range part = Intersect(layout_->parameters()[p].range(), held);
      if (part.count > 0) parts_.push_back({.section = s, .range = {part.first - held.first, part.count}});
    }
  }
  const int64_t elements = StateElements(*layout_, options_->stage, rank);
  ZS_ASSIGN_OR_RETURN(optimizer_, optim::Optimizer::Create(device, options_->optimizer, elements, MakeRuns()));
  ZS_ASSIGN_OR_RETURN(sum_, device.Allocate(kSumBytes, Use::kCommunication, "gradient norm"));
  ZS_ASSIGN_OR_RETURN(scalars_, device.Allocate(kScalarsBytes, Use::kCommunication, "step scalars"));
  ZS_ASSIGN_OR_RETURN(host_, device.AllocateHost(kScalarsBytes + kSignatureBytes, Use::kCommunication, "step scalars"));
  return absl::OkStatus();
}

std::vector<optim::Run> StepEnd::MakeRuns() const {
  std::vector<optim::Run> runs;
  for (int s = 0; s < layout_->trainable_sections(); ++s) {
    const Holding holding = HoldingOf(*layout_, options_->stage, communicator_->rank(), s);
    for (int p : layout_->sections()[s].parameters) {
      const Parameter& parameter = layout_->parameters()[p];
      const Range part = Intersect(parameter.range(), holding.range);
      if (part.count == 0) continue;
      runs.push_back({.first = holding.state_first + part.first - holding.range.first,
                      .count = part.count,
                      .group = parameter.spec.group});
    }
  }
  return runs;
}

absl::Status StepEnd::Run(const GradientStore& gradients, ParameterStore& parameters, std::optional<double> learning_rate) {
  ZS_RETURN_IF_ERROR(communicator_->status());
  SumSquares(gradients);
  SumOverRanks();
  ZS_RETURN_IF_ERROR(communicator_->status());
  const Array sum = sum_.array(DType::kInt64).Slice(0, device::kExactSumWords);
  communicator_->device().step().DeriveScalars(*compute_, sum, rule_, learning_rate, scalars_.array(DType::kUint8));
  ZS_RETURN_IF_ERROR(Apply(gradients, parameters));
  CopyToHost();
  return absl::OkStatus();
}

void StepEnd::SumSquares(const GradientStore& gradients) {
  device::Device& device = communicator_->device();
  const Array words = sum_.array(DType::kInt64);
  const Array sum = words.Slice(0, device::kExactSumWords);
  signature_ = gradients.signature();
  device.elementwise().Fill(*compute_, sum, 0);
  device.elementwise().Fill(*compute_, words.Slice(device::kExactSumWords, 1), signature_);
  for (const Part& part : parts_) {
    device.step().AddPowers(*compute_, gradients.Held(part.section).Slice(part.range.first, part.range.count), 2, sum);
  }
}

// In stage 0 every rank has the whole norm: only the signatures are added.
void StepEnd::SumOverRanks() {
  const Array words = sum_.array(DType::kInt64);
  const Array summed = ShardsOptimizer(options_->stage) ? words : words.Slice(device::kExactSumWords, 1);
  compute_->Record(*summed_);
  comm::Work work = communicator_->AllReduce(
      summed, summed, comm::ReduceOp::kSum,
      {.after = {summed_.get()}, .wait_at_once = true, .traffic = comm::Traffic::kControl, .label = "gradient norm"});
  work.WaitOn(*compute_);
}

void StepEnd::CopyToHost() {
  device::Device& device = communicator_->device();
  auto* host = static_cast<std::byte*>(device.HostPointer(host_));
  device.CopyToHost(*compute_, scalars_.array(DType::kUint8), host);
  device.CopyToHost(*compute_, sum_.array(DType::kInt64).Slice(device::kExactSumWords, 1), host + kScalarsBytes);
  compute_->Record(*copied_);
  ran_ = true;
}

absl::Status StepEnd::Apply(const GradientStore& gradients, ParameterStore& parameters) {
  for (int s = 0; s < layout_->trainable_sections(); ++s) {
    const Holding holding = HoldingOf(*layout_, options_->stage, communicator_->rank(), s);
    if (holding.range.count == 0) continue;
    ZS_RETURN_IF_ERROR(optimizer_->Apply(*compute_, {.first = holding.state_first,
                                                     .weights = parameters.Held(s),
                                                     .gradients = gradients.Held(s),
                                                     .scalars = scalars_.array(DType::kUint8),
                                                     .write_back = {}}));
  }
  return absl::OkStatus();
}

absl::StatusOr<device::StepScalars> StepEnd::Result() {
  if (!ran_) return absl::FailedPreconditionError("no step has been made yet");
  copied_->Synchronize();
  ZS_RETURN_IF_ERROR(communicator_->status());
  ZS_RETURN_IF_ERROR(communicator_->device().status());
  const auto* host = static_cast<const std::byte*>(communicator_->device().HostPointer(host_));
  device::StepScalars scalars;
  std::memcpy(&scalars, host, sizeof(scalars));
  int64_t signatures = 0;
  std::memcpy(&signatures, host + kScalarsBytes, sizeof(signatures));
  if (signatures == int64_t{signature_} * layout_->world_size()) return scalars;
  const absl::Status different = absl::FailedPreconditionError(
      "ranks called GradientsReady for different units, or in another order, in the last step: what they summed does not "
      "belong "
      "together; all ranks run the same units in the same order");
  communicator_->Abort(different);
  return different;
}

device::Array StepEnd::StateOf(const Array& state, int section) const {
  const Holding holding = HoldingOf(*layout_, options_->stage, communicator_->rank(), section);
  return state.Slice(holding.state_first, holding.range.count);
}

}  // namespace zeroshard::zero
