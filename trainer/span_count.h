// How many spans a step leaves at most: what memory a trace needs.
//
// Example:
//   recorder.Reserve(steps * SpansPerStep(engine.layout(), engine.options()));
#pragma once

#include <cstdint>

#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::trainer {

// Upper bounds, of one rank. A step: units run forward, again and backward, each gathered, reduced, waited for, landed, copied
// between tiers; then the update, and what is gathered after it.
int64_t SpansPerStep(const zero::Layout& layout, const zero::EngineOptions& options);
// So many forward passes.
int64_t SpansPerEvaluation(const zero::Layout& layout, int64_t batches);

}  // namespace zeroshard::trainer
