// Text from the model as it stands, at the end of a run.
//
// Collective, in every stage: all ranks go through the units together, and pick the same tokens.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, SampleTokens(*run, {.tokens = 200, .seed = 7}, prompt));
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::trainer {

struct SampleOptions {
  int64_t tokens = 0;
  uint64_t seed = 0;
  double temperature = 0.8;
  int top = 40;  // only the so many likeliest tokens are picked from
  // Tokens from here on mean nothing to the tokenizer and are not picked; 0: all are.
  int64_t known_vocab = 0;
  // Whether to go no further; asked before each token. The same answer on every rank.
  std::function<bool()> enough = {};
};

// The tokens that follow `prompt` (at least one token). Plans a model of one row for it: release the run's activations first.
// Errors: the engine's and the model's.
absl::StatusOr<std::vector<int32_t>> SampleTokens(TrainingRun& run, const SampleOptions& options,
                                                  std::vector<int32_t> prompt);

}  // namespace zeroshard::trainer
