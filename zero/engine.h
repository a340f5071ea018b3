// The ZeRO engine: parameters, gradients and optimizer state of one rank, in stage 0, 1, 2 or 3, for any model that is a list of
// units. It speaks to other ranks through comm::Communicator alone.
//
// ZeRO: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", sections 5 and 7.
//
// Every method but the accessors is collective: all ranks make the same calls in the same order. One host thread drives an Engine.
// Computing is queued on compute(); what the engine gathers and reduces is ordered against it by events, and no method but Result,
// Read..., Write... and those that say so waits on the host. After the first error of the communicator every method returns it.
//
// Example: one step of a model that is not ours.
//   for (int u = 0; u < units; ++u) {
//     ZS_RETURN_IF_ERROR(engine.Unshard(u, Pass::kForward));
//     ZS_ASSIGN_OR_RETURN(auto parameters, engine.parameters(u));
//     Forward(u, parameters);                                        // queued on engine.compute()
//     ZS_RETURN_IF_ERROR(engine.Reshard(u));
//   }
//   for (int u = units - 1; u >= 0; --u) {
//     ZS_RETURN_IF_ERROR(engine.Unshard(u, Pass::kBackward));
//     ZS_ASSIGN_OR_RETURN(auto parameters, engine.parameters(u));
//     ZS_ASSIGN_OR_RETURN(auto gradients, engine.gradients(u));
//     Backward(u, parameters, gradients);                            // each target says: overwrite, or add
//     ZS_RETURN_IF_ERROR(engine.GradientsReady(u));
//     ZS_RETURN_IF_ERROR(engine.Reshard(u));
//   }
//   ZS_RETURN_IF_ERROR(engine.Step());                             // after `accumulation` such micro-batches
//   ZS_ASSIGN_OR_RETURN(StepResult result, engine.Result());       // norm, clip factor: the host's copy, after
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
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/non_finite.h"
#include "zeroshard/zero/pass.h"

namespace zeroshard::zero {

struct StepOptions {
  std::optional<double> learning_rate;  // in place of the schedule's
};

struct StepResult {
  double gradient_norm = 0;  // global L2 norm, before clipping; NaN where a gradient is not finite
  double clip_factor = 1;    // gradient_norm * clip_factor is the norm after clipping
  double learning_rate = 0;
  double loss_scale = 1;  // that the step's loss was multiplied by; gradient_norm is without it
  bool skipped = false;   // a gradient was not finite on some rank: nothing was applied, on any
  int64_t applied_steps = 0;
  int64_t skipped_steps = 0;
  int64_t skipped_in_a_row = 0;
  int64_t non_finite_blocks = 0;  // blocks of 64 gradient elements, over all ranks, that hold an Inf or a NaN
};

class Engine {
 public:
  // Collective. Allocates everything, and predicts it in the device's ledger. Parameters begin as zeros: write them by
  // WriteParameter. `communicator` outlives the engine.
  // Errors: kInvalidArgument, naming the option or parameter; kFailedPrecondition, naming a rank that was given others;
  // kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(comm::Communicator& communicator, std::vector<model::UnitSpec> units,
                                                        const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The stream on which the model computes.
  device::Stream& compute();
  const EngineOptions& options() const;
  const Layout& layout() const;
  // What the loss of the next step's micro-batches is multiplied by, so that small gradients do not vanish in fp16: [1] fp32 in
  // device memory, read on compute() by whoever makes the loss's gradient. Step moves it; 1 without OptimizerOptions::loss_scale.
  device::Array loss_scale() const;
  // Reductions of gradients issued so far, all buckets counted.
  int64_t reductions() const;

  // {sharded, unsharding} -> unsharded: the unit's parameters are whole for what is queued on compute() from now on, and the next
  // unit's are on their way. Idempotent. A unit that is recomputed is unsharded in Pass::kRecompute between its forward and its
  // backward (model/unit_pass.h). In Pass::kBackward a unit that reads no parameters there gathers none.
  // Errors: kFailedPrecondition if more units are unsharded at once than there is memory for (1 + prefetch).
  absl::Status Unshard(int unit, Pass pass);
  // unsharded -> sharded: whoever touches the parameters now is refused. Idempotent.
  absl::Status Reshard(int unit);

  // Full parameters of an unsharded unit, in the unit's order, [elements] each; none in Pass::kBackward where it reads none.
  // Valid until Reshard. Errors: kFailedPrecondition, naming the unit, where it is sharded.
  absl::StatusOr<std::span<const device::Array>> parameters(int unit);

  // Where backward leaves the unit's gradients, in the unit's order; an empty array: frozen, nothing is computed. Valid from
  // Unshard(unit, kBackward) to GradientsReady(unit). Targets are filled in the order in which they were asked for: the first of a
  // tied parameter's says overwrite, the next ones add.
  // Errors: kFailedPrecondition, naming the unit, where it is not unsharded for backward, or has had all its micro-batches.
  absl::StatusOr<std::span<const model::GradientTarget>> gradients(int unit);
  // Hands the unit's gradients over, as compute() leaves them; full buckets leave at once. Called without gradients(unit) before
  // it, they are zeros (a rank that has no rows). A unit that is never ready in a step has a gradient of zero in it: moments and
  // decay act as PyTorch's do on a gradient of zeros.
  absl::Status GradientsReady(int unit);

  // Ends a step: what is left of the gradients is reduced, norm, clip, optimizer, parameters made whole again. Nothing here waits
  // for the host to decide. Errors: kFailedPrecondition while a unit is unsharded or has gradients under way.
  absl::Status Step(const StepOptions& options = {});
  // The last Step's numbers; waits for them. Errors: the communicator's or device's first, kFailedPrecondition before any Step.
  absl::StatusOr<StepResult> Result();
  // Whose fault it is that the last Step was skipped: a gradient that was not finite, of which parameter, on which rank; nothing if
  // all were finite. Waits. Errors: kFailedPrecondition after the next step's first gradients.
  absl::StatusOr<std::optional<NonFiniteGradient>> FindNonFinite();
  // Whether ranks look at their own gradients before these are summed, so that FindNonFinite can name a rank: one more read of
  // all gradients. On at first, but with a dynamic loss scale. Between steps; the same on all ranks.
  void WatchGradients(bool on);

  // Between steps: parameters of this name ('*' stands for any characters, '?' for one) are frozen from now on, or trained (on). A
  // frozen one has no gradient: it is not in the norm, its weights and moments stay. What is to be unfrozen was declared trainable;
  // see model::ParameterSpec::frozen. Waits.
  // Errors: kNotFound if none has such a name; kInvalidArgument, naming one that cannot be unfrozen; kFailedPrecondition in a step,
  // or where ranks call it for different ones.
  absl::Status SetFrozen(std::string_view pattern, bool frozen);
  absl::StatusOr<bool> IsFrozen(std::string_view name) const;

  // Collective; waits until all that ranks' engines have sent each other has arrived: then comm::Communicator::wire() has it all. Sends
  // control traffic alone.
  absl::Status Barrier(std::string_view label);

  // Drops what has been done since the last Step: gradients are forgotten, all units are resharded. Parameters stay.
  absl::Status Abandon();

  // One full tensor by its parameter's name (a tied one by any of its names), [elements] fp32 on every rank; waits. Writing takes
  // rank 0's values, so that ranks agree whatever they were given; elsewhere `values` may be empty.
  // Errors: kNotFound for a name, kInvalidArgument for a size; writing a parameter: kFailedPrecondition while a unit is unsharded.
  absl::Status ReadParameter(std::string_view name, std::span<float> values);
  absl::Status WriteParameter(std::string_view name, std::span<const float> values);
  // A trainable parameter's gradient, as Step takes it (over ranks and micro-batches, scaled, before clipping): what is left to
  // reduce is reduced first, after which only Step or Abandon may follow. After Step, the last step's.
  absl::Status ReadGradient(std::string_view name, std::span<float> values);
  absl::Status WriteGradient(std::string_view name, std::span<const float> values);
  // A part of the optimizer's state, as Optimizer::state() names it: "exp_avg", "exp_avg_sq", "momentum_buffer".
  absl::Status ReadMoment(std::string_view moment, std::string_view name, std::span<float> values);
  absl::Status WriteMoment(std::string_view moment, std::string_view name, std::span<const float> values);

 private:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace zeroshard::zero
