// A table for people: every parameter of a model, its shape, and how the optimizer treats it.
//
// Example:
//   std::cout << ParameterList(units, optimizer_options);
//
//   parameter                              shape         elements   group  lr scale   decay
//   transformer.wte.weight                 2048 x 192      393216       0  1          0.1
//   transformer.h.0.ln_1.weight            192                192       1  1          0
#pragma once

#include <string>
#include <vector>

#include "zeroshard/model/unit.h"
#include "zeroshard/optim/optimizer_options.h"

namespace zeroshard::trainer {

std::string ParameterList(const std::vector<model::UnitSpec>& units, const optim::OptimizerOptions& optimizer);

}  // namespace zeroshard::trainer
