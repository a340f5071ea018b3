// Which way a unit is about to be run: forward, forward again for the sake of backward, backward.
#pragma once

#include "zeroshard/model/unit_pass.h"

namespace zeroshard::zero {

using model::Pass;
using model::UnitPass;

}  // namespace zeroshard::zero
