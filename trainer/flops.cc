#include "zeroshard/trainer/flops.h"

namespace zeroshard::trainer {

double TrainingFlopsPerToken(const model::GptOptions& options) {
  const auto layers = static_cast<double>(options.layers), width = static_cast<double>(options.width);
  const double weights = 12 * layers * width * width + static_cast<double>(options.vocab) * width;
  const double scores = 2 * layers * width * static_cast<double>(options.context) / 2;
  return 6 * (weights + scores);
}

double ModelFlopsPerToken(const model::GptOptions& options, int64_t parameters) {
  const int64_t weights = parameters - options.context * options.width;
  return 6.0 * static_cast<double>(weights) +
         12.0 * static_cast<double>(options.layers) * static_cast<double>(options.context * options.width);
}

}  // namespace zeroshard::trainer
