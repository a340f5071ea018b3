// The sizes of a GPT-2, and the list of units that they make: all that ZeRO, a planner or a converter needs of the model.
//
// Units, in the order of forward: "embedding", "block.0" ... "block.<layers - 1>", "head". Parameters carry Hugging Face's names
// ("transformer.wte.weight", "transformer.h.0.attn.c_attn.weight", ..., "lm_head.weight"). A matrix of a linear layer is stored as
// [out, in]; Hugging Face's Conv1D stores [in, out] (hugging_face.h transposes).
//
// Example:
//   GptOptions options{.layers = 6, .heads = 6, .width = 384, .context = 256, .vocab = 50304, .batch = 4};
//   ZS_ASSIGN_OR_RETURN(std::vector<UnitSpec> units, GptUnits(options));
//   units.back().parameters.back().tied_to;  // "transformer.wte.weight"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/dtype.h"
#include "zeroshard/model/checkpoint_groups.h"
#include "zeroshard/model/unit.h"

namespace zeroshard::model {

// Indices into the optimizer's groups (optim::OptimizerOptions::groups), decided by shape: a parameter of two dimensions decays, one
// of fewer (norms, biases) does not.
inline constexpr int kDecayGroup = 0;
inline constexpr int kNoDecayGroup = 1;

// What is said of one parameter by its name, in place of what its shape says.
struct ParameterChoice {
  std::string name;
  int group = kDecayGroup;
  bool trainable = true;
};

struct GptOptions {
  int64_t layers = 6;
  int64_t heads = 6;
  int64_t width = 384;    // of the residual stream; heads divide it
  int64_t context = 256;  // tokens of a sequence
  int64_t vocab = 50304;
  bool tied = true;   // the head's matrix is the embedding's
  int64_t batch = 4;  // sequences of a micro-batch on one rank: the shape of every product
  // Of parameters and activations: fp32, bf16 or fp16. The residual stream, its gradient, sums and the loss are fp32 or wider.
  device::DType dtype = device::DType::kFloat32;
  // Prefixes of names ("transformer.wpe", "transformer.h.0.attn"): parameters that are not trained.
  std::vector<std::string> frozen = {};
  std::vector<ParameterChoice> choices = {};  // after `frozen`
  // Of the gradients that backward writes: fp32, or `dtype`; sums are taken in fp32 and rounded once (that of the head's matrix
  // once for every device::LossBlocks::rows).
  device::DType gradient_dtype = device::DType::kFloat32;
  // Activation checkpointing (Chen et al., "Training Deep Nets with Sublinear Memory Cost"): of every `checkpoint_every` blocks only
  // the input is kept from forward, and backward runs their forward again; 0: all activations are kept. The same bits. Of a group
  // of more than one, all units but the last are UnitSpec::recomputed.
  int64_t checkpoint_every = 0;
  // Those inputs wait in the memory of Device::host() in place of the device's.
  bool checkpoints_on_host = false;
};

inline CheckpointGroups GroupsOf(const GptOptions& options) {
  return CheckpointGroups(options.layers, options.checkpoint_every);
}

// Errors: kInvalidArgument, with the value, what is allowed and the nearest valid choice.
absl::Status ValidateGptOptions(const GptOptions& options);

// The units of that model. Errors: as ValidateGptOptions; kInvalidArgument for a prefix in `frozen` or a name in `choices` that
// no parameter has.
absl::StatusOr<std::vector<UnitSpec>> GptUnits(const GptOptions& options);

// Elements of all parameters, a tied one counted once.
int64_t ParameterElements(const std::vector<UnitSpec>& units);

}  // namespace zeroshard::model
