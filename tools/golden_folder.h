// A reference run, as a folder holds it: sizes and batch arithmetic, first weights, tokens, and what losses, norms and last weights
// must come to.
//
//   config.json          layers, heads, width, context, vocab, tied, rows, accumulation, steps, optimizer, lr, beta1, beta2, eps,
//                        momentum, weight_decay, clip, warmup, frozen
//   init.safetensors     weights under Hugging Face's names
//   tokens.bin           uint16, read in order: row r of micro-batch m of step s is sequence (s * accumulation + m) * rows + r
//   expected.json        [{"step", "loss", "grad_norm", "lr"}, ...]
//   final.safetensors    weights after the last step
//
// Example:
//   ZS_ASSIGN_OR_RETURN(GoldenFolder golden, GoldenFolder::Open("golden/adamw"));
//   ZS_ASSIGN_OR_RETURN(trainer::RunOptions options, golden.Options(engine_options));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/model/safetensors.h"
#include "zeroshard/trainer/training_run.h"

namespace zeroshard::tools {

struct GoldenStep {
  double loss = 0;
  double gradient_norm = 0;
};

class GoldenFolder {
 public:
  // Errors: those of reading; kInvalidArgument, with file and entry, for what is missing or no number.
  static absl::StatusOr<GoldenFolder> Open(const std::string& path);

  // A run like the reference, with `engine` saying how it is sharded. Errors: kInvalidArgument for sizes that make no model, tokens
  // that are too few or beyond the vocabulary.
  absl::StatusOr<trainer::RunOptions> Options(const zero::EngineOptions& engine) const;

  const std::vector<GoldenStep>& steps() const { return steps_; }
  const model::Safetensors& first() const { return first_; }
  const model::Safetensors& last() const { return last_; }

 private:
  GoldenFolder(std::string path, model::Safetensors first, model::Safetensors last)
      : path_(std::move(path)), first_(std::move(first)), last_(std::move(last)) {}
  absl::Status ReadConfig();
  absl::Status ReadExpected();

  std::string path_;
  model::Safetensors first_;
  model::Safetensors last_;
  std::vector<GoldenStep> steps_;
  model::GptOptions model_;
  optim::OptimizerOptions optimizer_;
  int64_t rows_ = 0, accumulation_ = 1;
  double clip_ = 0;
};

}  // namespace zeroshard::tools
