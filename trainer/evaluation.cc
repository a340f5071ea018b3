#include "zeroshard/trainer/evaluation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/scoped_span.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {

using device::DType;
using device::Use;

absl::StatusOr<std::unique_ptr<Evaluation>> Evaluation::Create(TrainingRun& run, const PreparedData& data, int64_t batches) {
  if (batches < 1) return absl::InvalidArgumentError(absl::StrCat("an evaluation of ", batches, " batches; at least 1"));
  if (data.vocab > run.options().model.vocab) {
    return absl::InvalidArgumentError(absl::StrCat("the evaluation's data has a vocabulary of ", data.vocab,
                                                   ", the model one of ", run.options().model.vocab));
  }
  ZS_ASSIGN_OR_RETURN(DataSet set, DataSet::Open(data, {run.shape().context, 0, SampleOrder::Mode::kSequential}));
  const int64_t rows = std::min(set.sequences(), batches * run.shape().rows);
  std::unique_ptr<Evaluation> evaluation(new Evaluation(run, std::move(set), rows));
  ZS_RETURN_IF_ERROR(evaluation->Allocate());
  return evaluation;
}

Evaluation::Evaluation(TrainingRun& run, DataSet data, int64_t rows)
    : run_(&run),
      data_(std::move(data)),
      rows_(rows),
      batches_((rows + run.shape().rows - 1) / run.shape().rows),
      ready_(run.communicator().device().MakeEvent()),
      host_sums_(static_cast<size_t>(batches_)) {}

absl::Status Evaluation::Allocate() {
  device::Device& device = run_->communicator().device();
  const auto tokens = static_cast<size_t>(run_->shape().MostRows() * run_->shape().context);
  ZS_ASSIGN_OR_RETURN(tokens_, device.AllocateHost(static_cast<int64_t>(2 * tokens * sizeof(int32_t)), Use::kData,
                                                   "tokens of the evaluation"));
  const std::span<int32_t> both(static_cast<int32_t*>(device.HostPointer(tokens_)), 2 * tokens);
  inputs_ = both.first(tokens);
  targets_ = both.last(tokens);
  const int64_t bytes = batches_ * device::SizeOf(DType::kFloat64);
  ZS_ASSIGN_OR_RETURN(mine_, device.Allocate(bytes, Use::kData, "evaluated losses of this rank"));
  ZS_ASSIGN_OR_RETURN(sums_, device.Allocate(bytes, Use::kData, "evaluated losses of all ranks"));
  device.ledger().Predict(Use::kData, tokens_.bytes() + 2 * bytes);
  return absl::OkStatus();
}

absl::Status Evaluation::ReadRows(int64_t first, int64_t rows) {
  const device::ScopedSpan span(run_->communicator().device(), device::SpanKind::kRead);
  const auto context = static_cast<size_t>(run_->shape().context);
  for (int64_t row = 0; row < rows; ++row) {
    const size_t at = static_cast<size_t>(row) * context;
    ZS_RETURN_IF_ERROR(data_.Read(first + row, inputs_.subspan(at, context), targets_.subspan(at, context)));
  }
  return absl::OkStatus();
}

absl::Status Evaluation::RunBatch(int64_t batch) {
  zero::Engine& engine = run_->engine();
  model::Gpt& gpt = run_->gpt();
  device::Stream& stream = engine.compute();
  BatchShape shape = run_->shape();
  const int64_t first = batch * shape.rows;
  shape.rows = std::min(shape.rows, rows_ - first);
  const int rank = run_->communicator().rank();
  const int64_t rows = shape.Rows(rank);
  const auto tokens = static_cast<size_t>(rows * shape.context);
  ZS_RETURN_IF_ERROR(ReadRows(first + shape.FirstRow(rank), rows));
  ZS_RETURN_IF_ERROR(gpt.BeginMicroBatch(stream, {.inputs = inputs_.first(tokens),
                                                  .targets = targets_.first(tokens),
                                                  .rows = rows,
                                                  .purpose = model::Purpose::kEvaluate}));
  const auto& units = run_->units();
  for (int u = 0; u < static_cast<int>(units.size()); ++u) {
    ZS_RETURN_IF_ERROR(engine.Unshard(u, zero::Pass::kForward));
    ZS_ASSIGN_OR_RETURN(const auto parameters, engine.parameters(u));
    {
      const device::ScopedSpan span(stream, device::SpanKind::kEvaluate, units[static_cast<size_t>(u)].name);
      ZS_RETURN_IF_ERROR(gpt.Forward(stream, u, parameters));
    }
    ZS_RETURN_IF_ERROR(engine.Reshard(u));
  }
  stream.device().elementwise().Copy(stream, gpt.loss_sum(), mine_.array(DType::kFloat64).Slice(batch, 1));
  // What forward kept for a backward that does not come.
  return engine.Abandon();
}

absl::StatusOr<double> Evaluation::Run() {
  comm::Communicator& communicator = run_->communicator();
  device::Device& device = communicator.device();
  device::Stream& stream = run_->engine().compute();
  for (int64_t batch = 0; batch < batches_; ++batch) ZS_RETURN_IF_ERROR(RunBatch(batch));
  stream.Record(*ready_);
  ZS_RETURN_IF_ERROR(
      communicator
          .AllReduce(
              mine_.array(DType::kFloat64), sums_.array(DType::kFloat64), comm::ReduceOp::kSum,
              {.after = {ready_.get()}, .wait_at_once = true, .traffic = comm::Traffic::kControl, .label = "evaluation"})
          .Wait());
  device.CopyToHost(stream, sums_.array(DType::kFloat64), host_sums_.data());
  stream.Synchronize();
  ZS_RETURN_IF_ERROR(device.status());
  return std::accumulate(host_sums_.begin(), host_sums_.end(), 0.0) / static_cast<double>(tokens());
}

}  // namespace zeroshard::trainer
