// A table for people: what a rank held, by kind, beside what it would hold in each stage.
//
// Example:
//   std::cout << MemoryTable(engine.layout(), engine.options(), reports);
//
//   memory of a rank, MB       held   stage 0   stage 1   *stage 2   stage 3
//   parameters                 12.1      12.1      12.1       12.1       6.1
//   ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/trainer/rank_report.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::trainer {

// Of each kind the rank that holds most speaks. What does not depend on the stage (activations, data) is shown as it was. `first`: what the
// reports' column is called.
std::string MemoryTable(const zero::Layout& layout, const zero::EngineOptions& options,
                        const std::vector<RankReport>& reports, std::string_view first = "held");

}  // namespace zeroshard::trainer
