// The loss scale of fp16 training, by DeepSpeed's rules: what a step's loss is multiplied by, so that small gradients do not vanish,
// and how it moves.
//
// Micikevicius et al., "Mixed Precision Training", section 3.2. Dynamic: a step that overflows uses up one of `hysteresis`; where
// none is left the scale halves, never below `minimum`; after `window` applied steps in a row it doubles, and the hysteresis is
// full again. A static scale stays.
//
// Example:
//   LossScale scale{.kind = LossScaleKind::kDynamic, .initial_power = 16};   // begins at 65536
#pragma once

#include <cstdint>

namespace zeroshard::device {

enum class LossScaleKind : uint8_t { kNone, kStatic, kDynamic };

struct LossScale {
  LossScaleKind kind = LossScaleKind::kNone;
  double value = 1;  // of kStatic
  int initial_power = 16;
  int64_t window = 1000;
  int64_t hysteresis = 2;
  // Whether hysteresis is full again after each applied step, in place of after a window.
  bool consecutive_hysteresis = false;
  double minimum = 1;
};

}  // namespace zeroshard::device
