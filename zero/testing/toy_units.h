// Models for tests: small, and odd in every way that a model may be.
//
// Example:
//   Train(communicator, OddUnits(), options, {.steps = 3});
#pragma once

#include <vector>

#include "zeroshard/model/unit.h"

namespace zeroshard::zero::testing {

// An embedding that backward does not read, tied to the head; blocks of odd sizes; frozen and trainable ones alternating; an empty
// tensor; a unit of frozen ones alone; two parameter groups.
std::vector<model::UnitSpec> OddUnits();

// `units` units of one tensor of `elements` elements each.
std::vector<model::UnitSpec> EqualUnits(int units, int64_t elements);

}  // namespace zeroshard::zero::testing
