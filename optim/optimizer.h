// Optimizers over flat fp32 shards. An Optimizer sees one shard, runs of it that belong to parameter groups, and a step's
// scalars in device memory; it never learns who holds the rest.
//
// State (moments, momentum) lies parallel to the shard, [elements] fp32 each, zero at first. One fused pass reads the
// gradient, unscales and clips it, updates state and weights, and writes the weights back in the compute dtype.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto optimizer, Optimizer::Create(device, options, shard.elements(), runs));
//   device.step().DeriveScalars(stream, sum_of_squares, MakeStepRule(options, 1.0, clip), std::nullopt, scalars);
//   ZS_RETURN_IF_ERROR(optimizer->Apply(stream, {.weights = shard, .gradients = gradients, .scalars = scalars}));
// State may also lie elsewhere (in host memory, in a file) and be handed to each Apply, a part at a time:
//   ZS_ASSIGN_OR_RETURN(auto optimizer, Optimizer::CreateWithoutState(host, options, elements, runs));
//   optimizer->Apply(stream, {.first = f, .weights = masters, ..., .state = {exp_avg, exp_avg_sq}});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/pieces.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/optim/muon.h"
#include "zeroshard/optim/optimizer_options.h"

namespace zeroshard::optim {

// Elements first ... first + count - 1 of a shard that belong to parameters of one group. What no run covers (padding) is
// never read or written.
struct Run {
  int64_t first = 0;
  int64_t count = 0;
  int group = 0;
  bool frozen = false;  // for now: not touched
  // Of a parameter of two dimensions that the run is the whole of; else 0. Muon wants them.
  int64_t rows = 0;
  int64_t columns = 0;
};

// The shapes of those that Muon takes; [0, 0] of one that is no whole matrix.
std::vector<MatrixShape> MatricesOf(const OptimizerOptions& options, std::span<const Run> runs);

// One step on elements first ... first + weights.elements() - 1 of the shard.
struct Update {
  int64_t first = 0;
  device::Array weights = {};    // [count] fp32: the masters
  device::Array gradients = {};  // [count] fp32, bf16 or fp16
  device::Array scalars = {};    // [sizeof(device::StepScalars)] uint8
  device::Array write_back =
      {};  // [count] bf16 or fp16: gets the new weights; empty where the masters are what is computed with
  // [count] fp32 each, in the order of StateNames: of an optimizer without state of its own. Zeros before the first step.
  std::array<device::Array, 2> state = {};
};

// What an optimizer keeps for each element, in order; the names are PyTorch's. At most two.
std::span<const std::string_view> StateNames(const OptimizerOptions& options);

// A part of the state, for checkpoints.
struct StateTensor {
  std::string_view name;  // "exp_avg", "exp_avg_sq", "momentum_buffer"
  device::Array array;    // [elements] fp32
};

class Optimizer {
 public:
  // `elements`: of the shard; `runs`: disjoint, ascending, inside it. State is allocated on `device` under Use::kMoments;
  // `device` outlives the Optimizer.
  // Errors: kInvalidArgument, naming the option or run, a run of an orthogonal group that is no whole matrix among them;
  // kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(device::Device& device, const OptimizerOptions& options,
                                                           int64_t elements, std::vector<Run> runs);

  // The same, without state: each Update brings it. `device` is where the pass runs.
  static absl::StatusOr<std::unique_ptr<Optimizer>> CreateWithoutState(device::Device& device,
                                                                       const OptimizerOptions& options, int64_t elements,
                                                                       std::vector<Run> runs);

  // Queues the step's pass on `stream`: one operation for each Pieces::kMost runs, which counts as touching all of the update's
  // arrays. A shard may be updated in parts, in any order, each element once a step. Where the scalars say skip, nothing is
  // written. Errors: kInvalidArgument, for arrays whose sizes or dtypes do not fit; then nothing was queued.
  absl::Status Apply(device::Stream& stream, const Update& update);

  // Of the runs that lie, in whole or in part, in elements first ... first + count - 1. No Apply is under way.
  void SetFrozen(int64_t first, int64_t count, bool frozen);

  // Read and written by name: in memory of the Optimizer's device. Empty where each Update brings the state.
  std::span<const StateTensor> state() const { return state_; }
  int64_t state_bytes_per_element() const { return StateBytesPerElement(options_); }
  int64_t elements() const { return elements_; }
  const OptimizerOptions& options() const { return options_; }

 private:
  Optimizer(device::Device& device, const OptimizerOptions& options, int64_t elements, std::vector<Run> runs);
  static absl::StatusOr<std::unique_ptr<Optimizer>> Make(device::Device& device, const OptimizerOptions& options,
                                                         int64_t elements, std::vector<Run> runs);
  absl::Status AllocateState();
  absl::Status Check(const Update& update) const;
  absl::Status CheckState(const Update& update) const;
  absl::Status MakeMuon();
  template <class Pass>
  absl::Status ApplyRuns(device::Stream& stream, const Update& update);
  void Queue(device::Stream& stream, const Update& update, const device::Pieces<device::AdamPass>& pieces);
  void Queue(device::Stream& stream, const Update& update, const device::Pieces<device::SgdPass>& pieces);
  // Of a run, `count` elements of which are in the update.
  absl::Status ApplyMuon(device::Stream& stream, const Update& update, const Run& run, int64_t count);
  device::Array StateOf(const Update& update, size_t i) const;  // parallel to the update's arrays

  device::Device* device_;
  OptimizerOptions options_;
  int64_t elements_;
  std::vector<Run> runs_;
  bool owns_state_ = false;
  std::vector<device::Buffer> buffers_;
  std::vector<StateTensor> state_;
  std::unique_ptr<Muon> muon_;  // where there are orthogonal groups
};

}  // namespace zeroshard::optim
