// The ZeRO engine: parameters, gradients and optimizer state of one rank, in stage 0, 1, 2 or 3, for any model that is a list of
// units. It speaks to other ranks through comm::Communicator alone.
//
// ZeRO: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", sections 5 and 7.
//
// Every method is collective: all ranks make the same calls in the same order. One host thread drives an Engine; computing is
// queued on compute(), and what the engine gathers and reduces is ordered against it by events.
//
// Example: one step of a model that is not ours.
//   for (int u = 0; u < units; ++u) {
//     ZS_RETURN_IF_ERROR(engine.Unshard(u, Pass::kForward));
//     Forward(u, engine.parameters(u));                     // queued on engine.compute()
//     ZS_RETURN_IF_ERROR(engine.Reshard(u));
//   }
//   for (int u = units - 1; u >= 0; --u) {
//     ZS_RETURN_IF_ERROR(engine.Unshard(u, Pass::kBackward));
//     Backward(u, engine.parameters(u), engine.gradients(u));  // each target says: overwrite, or add
//     ZS_RETURN_IF_ERROR(engine.GradientsReady(u));
//     ZS_RETURN_IF_ERROR(engine.Reshard(u));
//   }
//   ZS_RETURN_IF_ERROR(engine.Step());                             // after `accumulation` such micro-batches
//   ZS_ASSIGN_OR_RETURN(StepResult result, engine.Result());   // norm, clip factor: the host's copy, after
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gradient_target.h"
#include "zeroshard/model/unit.h"
#include "zeroshard/optim/optimizer.h"

namespace zeroshard::zero {

enum class Partition : uint8_t { kFlat, kTensor };
enum class Ownership : uint8_t { kRoundRobin, kContiguous, kBalanced };
enum class Pass : uint8_t { kForward, kBackward };

struct EngineOptions {
  int stage = 2;
  Partition partition = Partition::kFlat;
  Ownership owner = Ownership::kBalanced;          // partition tensor
  int64_t reduce_bucket_size = 500'000'000;        // elements
  bool reduce_scatter = true;
  bool round_robin_gradients = false;
  bool overlap = true;
  int prefetch = 1;                                // units ahead, stage 3
  bool keep_parameters = false;                    // stage 3: keep forward's for backward (2Ψ in place of 3Ψ)
  int accumulation = 1;                            // micro-batches a step
  double clip = 0;                                 // global L2 norm; 0: off
  // What a step's gradient is of what the ranks' backward passes left: their average over ranks and micro-batches (other
  // people's models), or their sum times `gradient_scale` (the trainer: 2^-k, see DESIGN's "The life of a step").
  bool average = true;
  double gradient_scale = 1;
  optim::OptimizerOptions optimizer;
};

struct StepOptions {
  std::optional<double> learning_rate;  // in place of the schedule's
};

struct StepResult {
  double gradient_norm = 0;  // before clipping
  double clip_factor = 1;
  bool skipped = false;      // a non-finite gradient
  int64_t applied_steps = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Collective. Parameters begin as zeros: write them by WriteParameter.
  // Errors: kInvalidArgument, naming the option or parameter; kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(comm::Communicator& communicator, std::vector<model::UnitSpec> units,
                                                        const EngineOptions& options);

  virtual device::Stream& compute() = 0;

  virtual absl::Status Unshard(int unit, Pass pass) = 0;
  // Full parameters of an unsharded unit, in the unit's order, each [shape]. Touching a sharded one is an error.
  virtual std::span<const device::Array> parameters(int unit) = 0;
  // Where backward leaves the unit's gradients; valid from Unshard(unit, kBackward) to GradientsReady(unit).
  virtual std::span<const model::GradientTarget> gradients(int unit) = 0;
  virtual absl::Status GradientsReady(int unit) = 0;
  virtual absl::Status Reshard(int unit) = 0;
  virtual absl::Status Step(const StepOptions& options = {}) = 0;
  virtual absl::StatusOr<StepResult> Result() = 0;

  // Collective. One full tensor, [shape] fp32, by the parameter's name; the host memory is the caller's.
  virtual absl::Status ReadParameter(std::string_view name, std::span<float> values) = 0;
  virtual absl::Status WriteParameter(std::string_view name, std::span<const float> values) = 0;
};

}  // namespace zeroshard::zero
