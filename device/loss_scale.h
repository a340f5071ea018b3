// The loss scale of fp16 training, by DeepSpeed's rules: what a step's loss is multiplied by, so that small gradients do not vanish,
// and how it moves.
//
// Micikevicius et al., "Mixed Precision Training", section 3.2. Dynamic: a step that overflows uses up one of `hysteresis`; where
// none is left the scale halves, never below `minimum`; after `window` applied steps in a row it doubles, and the hysteresis is
// full again. A static scale stays.
//
// Example:
//   LossScale rule{.kind = LossScaleKind::kDynamic, .initial_power = 16};   // begins at 65536
//   LossScaleState state{.scale = InitialLossScale(rule)};
//   state = NextLossScale(rule, state, /*overflow=*/true);                  // 65536 still: the first of two is borne
//   state = NextLossScale(rule, state, /*overflow=*/true);                  // 32768
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "zeroshard/device/host_device.h"

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

// No scale grows beyond this: far above any that a gradient survives, and fp32 can multiply by it.
inline constexpr float kLargestLossScale = 0x1p100f;

// Where the automaton is. All zero is before the first step: the scale is InitialLossScale's.
struct LossScaleState {
  float scale;                   // of the next step
  int32_t hysteresis_used;       // overflows that were borne
  int64_t steps_since_overflow;  // applied ones
};

ZS_HOST_DEVICE inline float InitialLossScale(const LossScale& rule) {
  if (rule.kind == LossScaleKind::kNone) return 1;
  return static_cast<float>(rule.kind == LossScaleKind::kStatic ? rule.value : std::ldexp(1.0, rule.initial_power));
}

// After a step that overflowed and was skipped, or was applied.
ZS_HOST_DEVICE inline LossScaleState NextLossScale(const LossScale& rule, LossScaleState state, bool overflow) {
  if (rule.kind != LossScaleKind::kDynamic) return state;
  if (overflow) {
    state.steps_since_overflow = 0;
    if (state.hysteresis_used + 1 < rule.hysteresis) {
      ++state.hysteresis_used;
    } else {
      state.scale = std::max(state.scale / 2, static_cast<float>(rule.minimum));
    }
    return state;
  }
  ++state.steps_since_overflow;
  const bool window_over = state.steps_since_overflow % rule.window == 0;
  if (rule.consecutive_hysteresis || window_over) state.hysteresis_used = 0;
  if (window_over) state.scale = std::fmin(state.scale * 2, kLargestLossScale);
  return state;
}

}  // namespace zeroshard::device
