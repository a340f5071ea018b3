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

namespace {

// Of so many rows each that hold `size`, and the rows.
struct Batches {
  int64_t rows;
  int64_t batches;
};
Batches BatchesOf(int64_t rows, const EvaluationSize& size) {
  const int64_t all = std::min(size.sequences, size.batches * rows);
  return {.rows = all, .batches = (all + rows - 1) / rows};
}

}  // namespace

EvaluationSize EvaluationSizeOf(const PreparedData& data, int64_t context, int64_t batches) {
  if (data.files.empty()) return {};
  return {.batches = batches, .sequences = DataSet::SequencesOf(data.tokens, context)};
}

RunDataBytes EvaluationBytesOf(const RunOptions& options, int world_size, const EvaluationSize& size) {
  const BatchShape shape = ShapeOf(options, world_size);
  const Batches batches = BatchesOf(shape.rows, size);
  if (batches.batches == 0) return {};
  return {.device = 2 * batches.batches * device::SizeOf(DType::kFloat64),
          .host = 2 * shape.MostRows() * shape.context * device::SizeOf(DType::kInt32)};
}

absl::StatusOr<std::unique_ptr<Evaluation>> Evaluation::Create(TrainingRun& run, const PreparedData& data, int64_t batches) {
  if (batches < 1) return absl::InvalidArgumentError(absl::StrCat("an evaluation of ", batches, " batches; at least 1"));
  if (data.vocab > run.options().model.vocab) {
    return absl::InvalidArgumentError(absl::StrCat("the evaluation's data has a vocabulary of ", data.vocab,
                                                   ", the model one of ", run.options().model.vocab));
  }
  ZS_ASSIGN_OR_RETURN(DataSet set, DataSet::Open(data, {run.shape().context, 0, SampleOrder::Mode::kSequential}));
  std::unique_ptr<Evaluation> evaluation(new Evaluation(run, std::move(set), batches));
  ZS_RETURN_IF_ERROR(evaluation->Allocate());
  return evaluation;
}

Evaluation::Evaluation(TrainingRun& run, DataSet data, int64_t batches)
    : run_(&run),
      data_(std::move(data)),
      size_{.batches = batches, .sequences = data_.sequences()},
      rows_(BatchesOf(run.shape().rows, size_).rows),
      batches_(BatchesOf(run.shape().rows, size_).batches),
      ready_(run.communicator().device().MakeEvent()),
      host_sums_(static_cast<size_t>(batches_)) {}

absl::Status Evaluation::Allocate() {
  device::Device& device = run_->communicator().device();
  const RunDataBytes bytes = EvaluationBytesOf(run_->options(), run_->communicator().world_size(), size_);
  const auto tokens = static_cast<size_t>(run_->shape().MostRows() * run_->shape().context);
  ZS_ASSIGN_OR_RETURN(tokens_, device.AllocateHost(bytes.host, Use::kData, "tokens of the evaluation"));
  const std::span<int32_t> both(static_cast<int32_t*>(device.HostPointer(tokens_)), 2 * tokens);
  inputs_ = both.first(tokens);
  targets_ = both.last(tokens);
  ZS_ASSIGN_OR_RETURN(mine_, device.Allocate(bytes.device / 2, Use::kData, "evaluated losses of this rank"));
  ZS_ASSIGN_OR_RETURN(sums_, device.Allocate(bytes.device / 2, Use::kData, "evaluated losses of all ranks"));
  device.ledger().Predict(Use::kData, bytes.host + bytes.device);
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
