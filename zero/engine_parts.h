// What an Engine is made of. Internal to engine.cc and engine_tensors.cc.
//
// Example: see Engine::Step.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/zero/engine.h"
#include "zeroshard/zero/gradient_store.h"
#include "zeroshard/zero/parameter_store.h"
#include "zeroshard/zero/rank_groups.h"
#include "zeroshard/zero/rank_minimum.h"
#include "zeroshard/zero/step_end.h"
#include "zeroshard/zero/tensor_access.h"

namespace zeroshard::zero {

struct Engine::Parts {
  comm::Communicator* communicator;  // of all ranks
  EngineOptions options;
  Layout layout;
  std::unique_ptr<RankGroups> ranks = {};
  std::unique_ptr<device::Stream> compute = {};
  std::unique_ptr<ParameterStore> parameters = {};
  std::unique_ptr<GradientStore> gradients = {};
  std::unique_ptr<StepEnd> step_end = {};
  std::unique_ptr<TensorAccess> tensors = {};
  std::unique_ptr<RankMinimum> minimum = {};
  std::vector<bool> frozen = {};  // [Layout::parameters]: for now

  // Errors: kInvalidArgument for a unit that is none; the communicator's.
  absl::Status CheckUnit(int unit) const;
  // Errors: kFailedPrecondition, naming a unit that is unsharded; the communicator's.
  absl::Status CheckResharded(std::string_view call) const;
  // Whose storage is called `name`. Errors: kNotFound; kInvalidArgument for another number of elements, or a frozen one where
  // `trainable` is wanted.
  absl::StatusOr<int> FindTensor(std::string_view name, size_t elements, bool trainable) const;
  absl::StatusOr<int> FindWritten(std::string_view name, size_t elements, bool trainable) const;
  // Whether a pattern of Engine::SetFrozen means it.
  bool IsNamed(size_t parameter, std::string_view pattern) const;
  // Errors: kFailedPrecondition in a step; kNotFound if the pattern matches nothing; kInvalidArgument for what cannot be unfrozen.
  absl::Status CheckFreeze(std::string_view pattern, bool to_frozen) const;
  void Freeze(int parameter, bool to_frozen);
  // Errors: kFailedPrecondition, naming the parameter, if it is frozen for now.
  absl::Status CheckHasGradient(int parameter) const;

  // What this rank's optimizer works on of a section.
  Range Held(int section) const;
  // Of UpdatePass::states.
  absl::StatusOr<int> FindMoment(std::string_view moment) const;
  // What a step's gradient is of what is stored now. Waits.
  double StoredGradientScale();

  // Queues: this rank's part of one of UpdatePass::states, as far as it lies in `piece` of the section, = from, [piece.count] fp32.
  absl::Status StoreState(int state, int section, Range piece, device::Array from);
};

}  // namespace zeroshard::zero
