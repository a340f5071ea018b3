// Optimizers over flat fp32 shards. (Completed by optim's owner.)
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/optim/schedule.h"

namespace zeroshard::optim {

enum class Kind : uint8_t {
  kAdamW,  // Decoupled weight decay: Loshchilov & Hutter, "Decoupled Weight Decay Regularization", algorithm 2.
  kAdam,   // Decay added to the gradient (L2): Kingma & Ba, "Adam", algorithm 1.
  kSgd,    // Momentum and Nesterov as torch.optim.SGD does; decay added to the gradient (L2).
};

// Parameters of one group share these.
struct GroupOptions {
  double weight_decay = 0;
  double learning_rate_scale = 1;
};

struct OptimizerOptions {
  Kind kind = Kind::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0;
  bool nesterov = false;
  Schedule schedule;
  std::vector<GroupOptions> groups = {GroupOptions{}};  // ParameterSpec::group indexes them
};

}  // namespace zeroshard::optim
