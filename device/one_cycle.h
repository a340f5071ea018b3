// The 1cycle policy as DeepSpeed has it: the rate rises to its highest over the cycle's first part, falls back over the second, then
// decays; Adam's beta1 goes the other way. Smith, "A disciplined approach to neural network hyper-parameters: Part 1".
//
// Both are functions of the number of applied steps alone. DeepSpeed sets the rate after each applied step, so the first step has
// the lowest rate (and, by its rule, the lowest beta1), and the step after `a` applied ones has what belongs to position a of the cycle.
//
// Example:
//   OneCycle cycle{.first_steps = 4, .second_steps = 4};
//   CycleShare(cycle, 2);   // 0.5: half way up
//   CycleShare(cycle, 6);   // 0.5: half way down
#pragma once

#include <algorithm>
#include <cstdint>

#include "zeroshard/device/host_device.h"

namespace zeroshard::device {

struct OneCycle {
  int64_t first_steps = 2000;   // up
  int64_t second_steps = 2000;  // down
  // In how many stairs each part goes; 0: evenly.
  int64_t first_stairs = 0;
  int64_t second_stairs = 0;
  // After the cycle the lowest rate is divided by 1 + decay_rate * (steps since / decay_steps); 0: it stays.
  int64_t decay_steps = 0;
  double decay_rate = 0;
  // Whether Adam's beta1 goes from max_beta1 down to min_beta1 and back, with beta2 at 0.99.
  bool cycles_beta1 = false;
  double min_beta1 = 0.8;
  double max_beta1 = 0.9;
};

// How far up the cycle is at a position in it, first_steps + second_steps included: 0 to 1.
ZS_HOST_DEVICE inline double CycleShare(const OneCycle& cycle, int64_t position) {
  const bool up = position <= cycle.first_steps;
  const int64_t done = up ? position : std::max<int64_t>(0, cycle.first_steps + cycle.second_steps - position);
  const int64_t length = up ? cycle.first_steps : cycle.second_steps;
  const int64_t stairs = up ? cycle.first_stairs : cycle.second_stairs;
  if (stairs > 0) {
    const int64_t climbed = done * stairs / length;  // whole ones
    return static_cast<double>(climbed) / static_cast<double>(stairs);
  }
  return static_cast<double>(done) / static_cast<double>(length);
}

ZS_HOST_DEVICE inline double OneCycleRate(const OneCycle& cycle, double lowest, double highest, int64_t applied_steps) {
  const int64_t after = applied_steps - cycle.first_steps - cycle.second_steps;
  if (after <= 0) return lowest + (highest - lowest) * CycleShare(cycle, applied_steps);
  if (cycle.decay_steps == 0) return lowest;
  return lowest / (1 + cycle.decay_rate * (static_cast<double>(after) / static_cast<double>(cycle.decay_steps)));
}

ZS_HOST_DEVICE inline double OneCycleBeta1(const OneCycle& cycle, int64_t applied_steps) {
  if (applied_steps == 0) return cycle.min_beta1;
  if (applied_steps > cycle.first_steps + cycle.second_steps) return cycle.max_beta1;
  return cycle.max_beta1 - (cycle.max_beta1 - cycle.min_beta1) * CycleShare(cycle, applied_steps);
}

// DeepSpeed's second beta where it cycles the first.
inline constexpr double kOneCycleBeta2 = 0.99;

}  // namespace zeroshard::device
