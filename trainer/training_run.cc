#include "zeroshard/trainer/training_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/scoped_span.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/product_choices.h"
#include "zeroshard/zero/precision.h"

namespace zeroshard::trainer {
namespace {

using comm::ReduceOp;
using comm::Traffic;
using device::DType;

// Added as the ranks are, neighbours first: the result does not depend on how many of the micro-batches were ranks.
double TreeSum(std::vector<double>& values, size_t count) {
  for (; count > 1; count = (count + 1) / 2) {
    for (size_t i = 0; i < count / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
    if (count % 2 == 1) values[count / 2] = values[count - 1];
  }
  return values[0];
}

device::SpanKind SpanOf(model::Pass pass) {
  switch (pass) {
    case model::Pass::kForward:
      return device::SpanKind::kForward;
    case model::Pass::kRecompute:
      return device::SpanKind::kRecompute;
    case model::Pass::kBackward:
      return device::SpanKind::kBackward;
  }
  return device::SpanKind::kForward;
}

int64_t LargestParameter(const std::vector<model::UnitSpec>& units) {
  int64_t most = 0;
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& parameter : unit.parameters) most = std::max(most, model::Elements(parameter));
  }
  return most;
}

}  // namespace

BatchShape ShapeOf(const RunOptions& options, int world_size) {
  return {.rows = options.rows,
          .context = options.model.context,
          .accumulation = options.engine.accumulation,
          .world_size = world_size};
}

absl::StatusOr<RunOptions> Settle(RunOptions options, int world_size) {
  if (options.rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("rows = ", options.rows, ": a micro-batch has at least 1"));
  }
  const BatchShape shape = ShapeOf(options, world_size);
  options.model.batch = shape.MostRows();
  options.engine.average = false;
  options.engine.gradient_scale = shape.EngineScale();
  const zero::Precision precision = zero::PrecisionOf(options.engine, world_size);
  options.model.dtype = precision.parameters;
  options.model.gradient_dtype = precision.backward;
  return options;
}

RunDataBytes DataBytesOf(const RunOptions& options, int world_size, int rank) {
  const BatchShape shape = ShapeOf(options, world_size);
  return {.device = 2 * (shape.accumulation + 1) * device::SizeOf(DType::kFloat64),
          .host = 2 * shape.Rows(rank) * shape.context * device::SizeOf(DType::kInt32)};
}

TrainingRun::TrainingRun(comm::Communicator& communicator, RunOptions options)
    : communicator_(communicator), options_(std::move(options)) {}

// A step that failed may have left its losses on their way, and work of the model queued.
TrainingRun::~TrainingRun() {
  losses_.Wait().IgnoreError();
  if (engine_ != nullptr) engine_->compute().Synchronize();
}

absl::StatusOr<std::unique_ptr<TrainingRun>> TrainingRun::Create(comm::Communicator& communicator, RunOptions options,
                                                                 FirstWeights first_weights) {
  std::unique_ptr<TrainingRun> run(new TrainingRun(communicator, std::move(options)));
  ZS_RETURN_IF_ERROR(run->MakeEngine());
  ZS_RETURN_IF_ERROR(first_weights(*run->engine_, run->units_));
  ZS_RETURN_IF_ERROR(run->MakeModelAndData());
  ZS_RETURN_IF_ERROR(ShareProductChoices(communicator, run->options_.product_choices));
  return run;
}

absl::Status TrainingRun::MakeEngine() {
  ZS_ASSIGN_OR_RETURN(options_, Settle(std::move(options_), communicator_.world_size()));
  shape_ = ShapeOf(options_, communicator_.world_size());
  ZS_ASSIGN_OR_RETURN(units_, model::GptUnits(options_.model));
  ZS_ASSIGN_OR_RETURN(engine_, zero::Engine::Create(communicator_, units_, options_.engine));
  return absl::OkStatus();
}

absl::Status TrainingRun::MakeModelAndData() {
  device::Device& device = communicator_.device();
  ZS_ASSIGN_OR_RETURN(gpt_, model::Gpt::Create(device, options_.model));
  ZS_ASSIGN_OR_RETURN(DataSet data, DataSet::Open(options_.data, {shape_.context, options_.seed, options_.order}));
  data_ = std::make_unique<DataSet>(std::move(data));

  const RunDataBytes bytes = DataBytesOf(options_, communicator_.world_size(), communicator_.rank());
  ZS_ASSIGN_OR_RETURN(tokens_, device.AllocateHost(bytes.host, device::Use::kData, "tokens"));
  const auto tokens = static_cast<size_t>(shape_.Rows(communicator_.rank()) * shape_.context);
  const std::span<int32_t> both(static_cast<int32_t*>(device.HostPointer(tokens_)), 2 * tokens);
  inputs_ = both.first(tokens);
  targets_ = both.last(tokens);
  ZS_ASSIGN_OR_RETURN(mine_, device.Allocate(bytes.device / 2, device::Use::kData, "losses of this rank"));
  ZS_ASSIGN_OR_RETURN(sums_, device.Allocate(bytes.device / 2, device::Use::kData, "losses of all ranks"));
  device.ledger().Predict(device::Use::kData, bytes.host + bytes.device);
  losses_ready_ = device.MakeEvent();
  host_mine_.resize(static_cast<size_t>(shape_.accumulation + 1));
  host_sums_.resize(host_mine_.size());
  return absl::OkStatus();
}

absl::Status TrainingRun::ReadRows(int64_t micro_batch) {
  const device::ScopedSpan span(communicator_.device(), device::SpanKind::kRead);
  const int rank = communicator_.rank();
  const int64_t first = shape_.FirstSample(next_step_, micro_batch, rank);
  const auto context = static_cast<size_t>(shape_.context);
  for (int64_t row = 0; row < shape_.Rows(rank); ++row) {
    const size_t at = static_cast<size_t>(row) * context;
    ZS_RETURN_IF_ERROR(data_->Read(first + row, inputs_.subspan(at, context), targets_.subspan(at, context)));
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::RunUnit(model::UnitPass at) {
  ZS_ASSIGN_OR_RETURN(const auto parameters, engine_->parameters(at.unit));
  if (at.pass != model::Pass::kBackward) return Compute(at, parameters, {});
  ZS_ASSIGN_OR_RETURN(const auto gradients, engine_->gradients(at.unit));
  ZS_RETURN_IF_ERROR(Compute(at, parameters, gradients));
  return engine_->GradientsReady(at.unit);
}

absl::Status TrainingRun::Compute(model::UnitPass at, std::span<const device::Array> parameters,
                                  std::span<const model::GradientTarget> gradients) {
  device::Stream& stream = engine_->compute();
  const device::ScopedSpan span(stream, SpanOf(at.pass), units_[static_cast<size_t>(at.unit)].name);
  if (at.pass == model::Pass::kForward) return gpt_->Forward(stream, at.unit, parameters);
  if (at.pass == model::Pass::kRecompute) return gpt_->Recompute(stream, at.unit, parameters);
  return gpt_->Backward(stream, at.unit, parameters, gradients);
}

absl::Status TrainingRun::RunMicroBatch(int64_t micro_batch, bool stop) {
  device::Stream& stream = engine_->compute();
  ZS_RETURN_IF_ERROR(ReadRows(micro_batch));
  ZS_RETURN_IF_ERROR(gpt_->BeginMicroBatch(stream, {.inputs = inputs_,
                                                    .targets = targets_,
                                                    .rows = shape_.Rows(communicator_.rank()),
                                                    .gradient_scale = shape_.GradientScale(),
                                                    .loss_scale = engine_->loss_scale()}));
  for (const model::UnitPass at : gpt_->passes()) {
    ZS_RETURN_IF_ERROR(engine_->Unshard(at.unit, at.pass));
    ZS_RETURN_IF_ERROR(RunUnit(at));
    ZS_RETURN_IF_ERROR(engine_->Reshard(at.unit));
    if (at != model::UnitPass{static_cast<int>(units_.size()) - 1, model::Pass::kBackward}) continue;
    communicator_.device().elementwise().Copy(stream, gpt_->loss_sum(), mine_.array(DType::kFloat64).Slice(micro_batch, 1));
    if (micro_batch + 1 == shape_.accumulation) SendLosses(stop);
  }
  return absl::OkStatus();
}

// As soon as they are there: behind the parameters that are gathered at the step's end, they would hold the host until all of
// those have come.
void TrainingRun::SendLosses(bool stop) {
  device::Stream& stream = engine_->compute();
  device::Device& device = communicator_.device();
  const device::Array mine = mine_.array(DType::kFloat64);
  host_stop_ = stop ? 1 : 0;
  device.CopyFromHost(stream, &host_stop_, mine.Slice(shape_.accumulation, 1));
  stream.Record(*losses_ready_);
  losses_ = communicator_.AllReduce(mine, sums_.array(DType::kFloat64), ReduceOp::kSum,
                                    {.after = {losses_ready_.get()}, .traffic = Traffic::kControl, .label = "loss"});
}

absl::Status TrainingRun::ReceiveLosses() {
  device::Stream& stream = engine_->compute();
  device::Device& device = communicator_.device();
  ZS_RETURN_IF_ERROR(losses_.Wait());
  device.CopyToHost(stream, sums_.array(DType::kFloat64), host_sums_.data());
  device.CopyToHost(stream, mine_.array(DType::kFloat64), host_mine_.data());
  stream.Synchronize();
  return device.status();
}

absl::StatusOr<StepReport> TrainingRun::Step(bool stop) {
  const device::ScopedSpan span(communicator_.device(), device::SpanKind::kStep);
  StepReport report;
  report.step = next_step_;
  for (int64_t a = 0; a < shape_.accumulation; ++a) ZS_RETURN_IF_ERROR(RunMicroBatch(a, stop));
  ZS_RETURN_IF_ERROR(engine_->Step());
  ZS_RETURN_IF_ERROR(ReceiveLosses());
  ZS_ASSIGN_OR_RETURN(report.result, engine_->Result());
  report.stop = host_sums_.back() != 0;
  report.loss = TreeSum(host_sums_, static_cast<size_t>(shape_.accumulation)) / static_cast<double>(shape_.TokensPerStep());
  bits_.AddLoss(report.loss);
  ++next_step_;
  return report;
}

absl::StatusOr<std::vector<double>> TrainingRun::LossByRank() {
  device::Device& device = communicator_.device();
  const int64_t world_size = communicator_.world_size();
  std::vector<double> mine = host_mine_;
  const double loss = TreeSum(mine, static_cast<size_t>(shape_.accumulation)) / static_cast<double>(shape_.TokensPerStep());
  ZS_ASSIGN_OR_RETURN(const device::Buffer one, device.Allocate(8, device::Use::kData, "loss of this rank"));
  ZS_ASSIGN_OR_RETURN(const device::Buffer all, device.Allocate(8 * world_size, device::Use::kData, "loss of each rank"));
  device::Stream& stream = engine_->compute();
  device.CopyFromHost(stream, &loss, one.array(DType::kFloat64));
  stream.Synchronize();
  ZS_RETURN_IF_ERROR(communicator_
                         .AllGather(one.array(DType::kFloat64), all.array(DType::kFloat64),
                                    {.wait_at_once = true, .traffic = Traffic::kControl, .label = "loss by rank"})
                         .Wait());
  std::vector<double> losses(static_cast<size_t>(world_size));
  device.CopyToHost(stream, all.array(DType::kFloat64), losses.data());
  stream.Synchronize();
  return losses;
}

absl::StatusOr<std::string> TrainingRun::Bits() {
  BitsHash bits = bits_;
  std::vector<float> values(static_cast<size_t>(LargestParameter(units_)));
  for (const model::UnitSpec& unit : units_) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      if (!parameter.tied_to.empty()) continue;
      const std::span<float> full = std::span(values).first(static_cast<size_t>(model::Elements(parameter)));
      ZS_RETURN_IF_ERROR(engine_->ReadParameter(parameter.name, full));
      bits.AddWeights(full);
    }
  }
  return bits.Hex();
}

}  // namespace zeroshard::trainer
