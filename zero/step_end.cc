#include "zeroshard/zero/step_end.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/scoped_span.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/optim/optimizer_options.h"
#include "zeroshard/zero/precision.h"
#include "zeroshard/zero/update_passes.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;
using device::Use;

namespace {

constexpr int64_t kScalarsBytes = sizeof(device::StepScalars);
constexpr int64_t kSignatureBytes = sizeof(int64_t);
constexpr int64_t kSumBytes = device::kExactSumWords * SizeOf(DType::kInt64) + kSignatureBytes;

}  // namespace

absl::StatusOr<std::unique_ptr<StepEnd>> StepEnd::Create(const RankGroups& ranks, const Layout& layout,
                                                         const EngineOptions& options, device::Stream& compute) {
  std::unique_ptr<StepEnd> end(new StepEnd(ranks, layout, options, compute));
  ZS_RETURN_IF_ERROR(end->Allocate());
  return end;
}

StepEnd::StepEnd(const RankGroups& ranks, const Layout& layout, const EngineOptions& options, device::Stream& compute)
    : ranks_(&ranks),
      communicator_(&ranks.all()),
      layout_(&layout),
      options_(&options),
      compute_(&compute),
      rule_(optim::MakeStepRule(options.optimizer, GradientScale(options, layout.ranks()), options.clip)),
      summed_(communicator_->device().MakeEvent()),
      copied_(communicator_->device().MakeEvent()) {}

absl::Status StepEnd::Allocate() {
  device::Device& device = communicator_->device();
  ZS_ASSIGN_OR_RETURN(update_, MakeUpdatePass(device, *layout_, *options_, ranks_->shard().rank(), *compute_));
  ZS_ASSIGN_OR_RETURN(sum_, device.Allocate(kSumBytes, Use::kCommunication, "gradient norm"));
  ZS_ASSIGN_OR_RETURN(scalars_, device.Allocate(kScalarsBytes, Use::kCommunication, "step scalars"));
  ZS_ASSIGN_OR_RETURN(host_, device.AllocateHost(kScalarsBytes + kSignatureBytes, Use::kCommunication, "step scalars"));
  device.elementwise().Fill(*compute_, loss_scale(), device::InitialLossScale(rule_.loss_scale));
  return absl::OkStatus();
}

Array StepEnd::loss_scale() const {
  constexpr int64_t kFirst = offsetof(device::StepScalars, scaling) + offsetof(device::LossScaleState, scale);
  return scalars_.array(DType::kUint8).Slice(kFirst, SizeOf(DType::kFloat32)).As(DType::kFloat32);
}

double StepEnd::StoredLossScale(bool ended) {
  if (rule_.loss_scale.kind != device::LossScaleKind::kDynamic) return device::InitialLossScale(rule_.loss_scale);
  device::StepScalars scalars;
  communicator_->device().CopyToHost(*compute_, scalars_.array(DType::kUint8), &scalars);
  compute_->Synchronize();
  return ended && ran_ ? scalars.loss_scale : scalars.scaling.scale;
}

absl::Status StepEnd::Run(const GradientStore& gradients, ParameterStore& parameters, std::optional<double> learning_rate) {
  ZS_RETURN_IF_ERROR(communicator_->status());
  ZS_RETURN_IF_ERROR(SumSquares(gradients));
  SumOverRanks();
  ZS_RETURN_IF_ERROR(communicator_->status());
  const Array sum = sum_.array(DType::kInt64).Slice(0, device::kExactSumWords);
  communicator_->device().step().DeriveScalars(*compute_, sum, rule_, learning_rate, scalars_.array(DType::kUint8));
  {
    const device::ScopedSpan span(*compute_, device::SpanKind::kOptimizer);
    ZS_RETURN_IF_ERROR(update_->Apply(gradients, parameters, scalars_.array(DType::kUint8)));
  }
  CopyToHost();
  return absl::OkStatus();
}

absl::Status StepEnd::SumSquares(const GradientStore& gradients) {
  const device::ScopedSpan span(*compute_, device::SpanKind::kNorm);
  device::Device& device = communicator_->device();
  const Array words = sum_.array(DType::kInt64);
  const Array sum = words.Slice(0, device::kExactSumWords);
  signature_ = gradients.signature();
  device.elementwise().Fill(*compute_, sum, 0);
  device.elementwise().Fill(*compute_, words.Slice(device::kExactSumWords, 1), signature_);
  ZS_RETURN_IF_ERROR(update_->AddSquares(gradients, sum));
  if (!ranks_->counts() && ShardsOptimizer(options_->stage)) device.elementwise().Fill(*compute_, sum, 0);
  return absl::OkStatus();
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
  if (signatures == int64_t{signature_} * layout_->ranks()) return scalars;
  const absl::Status different = absl::FailedPreconditionError(
      "ranks called GradientsReady for different units, or in another order, in the last step: what they summed does not "
      "belong "
      "together; all ranks run the same units in the same order");
  communicator_->Abort(different);
  return different;
}

}  // namespace zeroshard::zero
