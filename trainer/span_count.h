// How many spans a step leaves at most: what memory a trace needs.
//
// Example:
//   recorder.Reserve(steps * SpansPerStep(engine.layout(), engine.options()));
#pragma once

#include <cstdint>

#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::trainer {

// An upper bound, of one rank: units run forward, again and backward, each gathered, reduced, waited for and landed.
int64_t SpansPerStep(const zero::Layout& layout, const zero::EngineOptions& options);

}  // namespace zeroshard::trainer
