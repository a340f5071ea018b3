// A training run on one rank: engine, model and data put together, and stepped.
//
// The communicator is handed in; which backend carries it is not known here. One host thread drives a run; every method but the
// accessors is collective: all ranks make the same calls in the same order.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<TrainingRun> run,
//                       TrainingRun::Create(communicator, options, [&](zero::Engine& engine, const auto& units) {
//                         return InitializeWeights(engine, units, layers, seed, rank);
//                       }));
//   for (int64_t step = 0; step < steps; ++step) {
//     ZS_ASSIGN_OR_RETURN(StepReport report, run->Step(/*stop=*/false));
//   }
//   ZS_ASSIGN_OR_RETURN(std::string bits, run->Bits());
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/model/gpt.h"
#include "zeroshard/trainer/batch_shape.h"
#include "zeroshard/trainer/bits_hash.h"
#include "zeroshard/trainer/data/data_set.h"
#include "zeroshard/zero/engine.h"

namespace zeroshard::trainer {

struct RunOptions {
  model::GptOptions model;     // `batch` is set by the run; dtypes by the engine's
  zero::EngineOptions engine;  // `average` and `gradient_scale` are set by the run
  int64_t rows = 0;            // of one micro-batch, all ranks together
  uint64_t seed = 0;           // of the order of samples
  SampleOrder::Mode order = SampleOrder::Mode::kShuffled;
  PreparedData data;
  // The algorithms of an earlier run's products, as ReadProductChoices gives them; rank 0's count. Empty: chosen anew.
  std::string product_choices = {};
};

BatchShape ShapeOf(const RunOptions& options, int world_size);

// As a run of so many ranks has them: the model's batch and dtypes, the engine's scale. Errors: kInvalidArgument for `rows`.
absl::StatusOr<RunOptions> Settle(RunOptions options, int world_size);

// What a run holds beside engine and model, under Use::kData, of its device's memory and of Device::AllocateHost.
struct RunDataBytes {
  int64_t device = 0;  // losses
  int64_t host = 0;    // tokens
};
RunDataBytes DataBytesOf(const RunOptions& options, int world_size, int rank);

struct StepReport {
  int64_t step = 0;
  double loss = 0;    // mean over all target tokens of the step, all ranks
  bool stop = false;  // some rank wanted to stop: all of them know
  zero::StepResult result;
};

class TrainingRun {
 public:
  // Writes every parameter's first value. Collective.
  using FirstWeights = absl::FunctionRef<absl::Status(zero::Engine& engine, const std::vector<model::UnitSpec>& units)>;

  // Collective. Plans and allocates everything; weights are written before there are activations, so that what it takes to make
  // them adds nothing to the run's peak. `communicator` outlives the run.
  // Errors: those of Engine::Create, first_weights, Gpt::Create, DataSet::Open.
  static absl::StatusOr<std::unique_ptr<TrainingRun>> Create(comm::Communicator& communicator, RunOptions options,
                                                             FirstWeights first_weights);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  const RunOptions& options() const { return options_; }
  const BatchShape& shape() const { return shape_; }
  zero::Engine& engine() { return *engine_; }
  model::Gpt& gpt() { return *gpt_; }  // until ReleaseActivations
  const std::vector<model::UnitSpec>& units() const { return units_; }
  comm::Communicator& communicator() { return communicator_; }

  // Trains on the next `accumulation` micro-batches. From the third step on it allocates nothing. `stop` is this rank's wish to end
  // the run; the step is done all the same. Errors: the communicator's and the engine's; kDataLoss for data that cannot be read.
  absl::StatusOr<StepReport> Step(bool stop);

  // Each rank's part of the last step's loss: the sum over its micro-batches, divided by the step's tokens. Collective.
  absl::StatusOr<std::vector<double>> LossByRank();

  // Drops the activations: what comes after the last step needs the memory more.
  void ReleaseActivations() { gpt_.reset(); }

  // 16 hex digits: see bits_hash.h. Holds one parameter at a time.
  absl::StatusOr<std::string> Bits();

 private:
  TrainingRun(comm::Communicator& communicator, RunOptions options);
  absl::Status MakeEngine();
  absl::Status MakeModelAndData();
  absl::Status ReadRows(int64_t micro_batch);
  absl::Status RunUnit(model::UnitPass at);
  absl::Status Compute(model::UnitPass at, std::span<const device::Array> parameters,
                       std::span<const model::GradientTarget> gradients);
  absl::Status RunMicroBatch(int64_t micro_batch, bool stop);
  void SendLosses(bool stop);
  absl::Status ReceiveLosses();

  comm::Communicator& communicator_;
  RunOptions options_;
  BatchShape shape_;
  std::vector<model::UnitSpec> units_;
  std::unique_ptr<zero::Engine> engine_;
  std::unique_ptr<model::Gpt> gpt_;
  std::unique_ptr<DataSet> data_;
  device::Buffer tokens_;       // host memory
  std::span<int32_t> inputs_;   // [rows of this rank, context], in tokens_
  std::span<int32_t> targets_;  // [rows of this rank, context], in tokens_
  // fp64 [accumulation + 1]: the loss of each micro-batch and the wish to stop; this rank's, and the sum over ranks.
  device::Buffer mine_;
  device::Buffer sums_;
  std::unique_ptr<device::Event> losses_ready_;
  comm::Work losses_;  // their exchange, of the last step
  std::vector<double> host_mine_;
  std::vector<double> host_sums_;
  double host_stop_ = 0;
  int64_t next_step_ = 0;
  BitsHash bits_;
};

}  // namespace zeroshard::trainer
