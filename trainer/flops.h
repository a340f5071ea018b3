// How many floating-point operations training takes, by the model's sizes.
//
// Example:
//   double share = tokens_per_s * TrainingFlopsPerToken(options) / peak;
#pragma once

#include <cstdint>

#include "zeroshard/model/gpt_options.h"

namespace zeroshard::trainer {

// Of forward and backward together: six for each weight of a product (two forward, four backward), and causal attention's products
// over half of the context on average. Embedding, norms and the optimizer are left out.
double TrainingFlopsPerToken(const model::GptOptions& options);

// By the convention by which MFU is compared: six for each of `parameters` (positions left out), and 12 layers context width for
// attention, masked or not.
double ModelFlopsPerToken(const model::GptOptions& options, int64_t parameters);

}  // namespace zeroshard::trainer
