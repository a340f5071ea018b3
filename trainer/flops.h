// How many floating-point operations training takes, by the model's sizes.
//
// Example:
//   double share = tokens_per_s * TrainingFlopsPerToken(options) / peak;
#pragma once

#include "zeroshard/model/gpt_options.h"

namespace zeroshard::trainer {

// Of forward and backward together: six for each weight of a product (two forward, four backward), and causal attention's products
// over half of the context on average. Embedding, norms and the optimizer are left out.
double TrainingFlopsPerToken(const model::GptOptions& options);

}  // namespace zeroshard::trainer
