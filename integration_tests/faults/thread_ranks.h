// Ranks of a fault test that are threads of this process, over in_process: death and freeze are injected.
#pragma once

#include <memory>

#include "zeroshard/integration_tests/faults/ranks.h"

namespace zeroshard::integration_tests {

std::unique_ptr<Ranks> MakeThreadRanks();

}  // namespace zeroshard::integration_tests
