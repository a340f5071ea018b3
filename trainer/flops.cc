#include "zeroshard/trainer/flops.h"

namespace zeroshard::trainer {

double TrainingFlopsPerToken(const model::GptOptions& options) {
  const auto layers = static_cast<double>(options.layers), width = static_cast<double>(options.width);
  const double weights = 12 * layers * width * width + static_cast<double>(options.vocab) * width;
  const double scores = 2 * layers * width * static_cast<double>(options.context) / 2;
  return 6 * (weights + scores);
}

}  // namespace zeroshard::trainer
