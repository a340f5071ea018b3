// The loss on data that is not trained on, between two steps: forward alone, the model's parameters as they are.
//
// Sequences are read in their order, each once: `batches` micro-batches of as many rows as training's, or fewer where the data ends;
// rows are dealt out to ranks as in training. The loss is the mean over all target tokens of all ranks; rows that only fill up a
// product count for nothing. Weights, moments, and what training computes after it keep their bits. Nothing is allocated in Run.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto evaluation, Evaluation::Create(*run, eval_data, /*batches=*/10));
//   ZS_ASSIGN_OR_RETURN(double val_loss, evaluation->Run());
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/trainer/data/data_set.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer {

// How large evaluations are, as is known before there is a run.
struct EvaluationSize {
  int64_t batches = 0;    // at most; 0: there are none
  int64_t sequences = 0;  // of the data
};
// Of data without files there are none.
EvaluationSize EvaluationSizeOf(const PreparedData& data, int64_t context, int64_t batches);
// What one holds, as DataBytesOf says what the run does: the same on every rank.
RunDataBytes EvaluationBytesOf(const RunOptions& options, int world_size, const EvaluationSize& size);

class Evaluation {
 public:
  // `run` outlives it, and keeps its activations. Errors: kInvalidArgument for data shorter than one sequence, or of another
  // vocabulary; those of DataSet::Open and Device::Allocate.
  static absl::StatusOr<std::unique_ptr<Evaluation>> Create(TrainingRun& run, const PreparedData& data, int64_t batches);

  // Target tokens of one evaluation, over all ranks.
  int64_t tokens() const { return rows_ * run_->shape().context; }

  // Forward passes of one.
  int64_t batches() const { return batches_; }

  // Collective, between steps. Errors: the engine's and the communicator's; kDataLoss for data that cannot be read.
  absl::StatusOr<double> Run();

 private:
  Evaluation(TrainingRun& run, DataSet data, int64_t batches);
  absl::Status Allocate();
  absl::Status RunBatch(int64_t batch);
  absl::Status ReadRows(int64_t first, int64_t rows);

  TrainingRun* run_;
  DataSet data_;
  EvaluationSize size_;
  int64_t rows_;     // in all, over all ranks
  int64_t batches_;  // that hold them
  device::Buffer tokens_;
  std::span<int32_t> inputs_;   // [most rows of a rank, context], in tokens_
  std::span<int32_t> targets_;  // the same
  device::Buffer mine_;         // fp64 [batches]: sums of this rank's losses
  device::Buffer sums_;         // and of all ranks'
  std::unique_ptr<device::Event> ready_;
  std::vector<double> host_sums_;
};

}  // namespace zeroshard::trainer
