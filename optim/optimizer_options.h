// What an optimizer is made from: its kind, its numbers, its parameter groups.
//
// Example: weights of two dimensions decay, norms and biases do not.
//   OptimizerOptions options{.kind = Kind::kAdamW, .schedule = {.learning_rate = 3e-4},
//                            .groups = {{.weight_decay = 0.1}, {.weight_decay = 0}}};
//   ZS_RETURN_IF_ERROR(Validate(options));
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/device/loss_scale.h"
#include "zeroshard/device/step_scalars.h"
#include "zeroshard/optim/schedule.h"

namespace zeroshard::optim {

enum class Kind : uint8_t {
  kAdamW,  // Decoupled weight decay: Loshchilov & Hutter, "Decoupled Weight Decay Regularization", algorithm 2.
  kAdam,   // Decay added to the gradient (L2): Kingma & Ba, "Adam", algorithm 1.
  kMuon,   // Muon of matrices in groups with `orthogonal`, AdamW of all else; momentum and nesterov are Muon's.
  kSgd,    // Momentum and Nesterov as torch.optim.SGD does; decay added to the gradient (L2).
};

using device::LossScale;

// Parameters of one group share these.
struct GroupOptions {
  double weight_decay = 0;
  double learning_rate_scale = 1;
  bool orthogonal = false;  // kMuon: whole matrices, whose update is made orthogonal
};

struct OptimizerOptions {
  Kind kind = Kind::kAdamW;
  double beta1 = 0.9;   // Adam's
  double beta2 = 0.95;  // Adam's
  double eps = 1e-8;    // Adam's
  double momentum = 0;  // SGD's, Muon's
  bool nesterov = false;
  Schedule schedule = {};
  std::vector<GroupOptions> groups = {GroupOptions{}};  // ParameterSpec::group indexes them
  LossScale loss_scale = {};                            // fp16's
};

// Errors: kInvalidArgument, naming the field, its value and what is allowed.
absl::Status Validate(const OptimizerOptions& options);

// How the device derives the scalars of each step of this optimizer: see device::StepRule for gradient_scale and clip.
device::StepRule MakeStepRule(const OptimizerOptions& options, double gradient_scale, double clip);

// Bytes of state for each element of a shard: 8 (Adam's two moments), 4 (momentum) or 0.
int64_t StateBytesPerElement(const OptimizerOptions& options);

// "adamw", "adam", "muon", "sgd".
std::string_view Name(Kind kind);
std::optional<Kind> ParseKind(std::string_view name);

}  // namespace zeroshard::optim
