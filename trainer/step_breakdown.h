// Where the time of a step went, from the spans that the rank recorded: what it computed, and what it waited for.
//
// Example:
//   StepBreakdown breakdown = BreakDown(spans);
//   FormatBreakdown(breakdown, step_s, buffer);   // "forward 12.1 ms  backward 25.0 ms  ..."
#pragma once

#include <cstddef>
#include <span>

#include "zeroshard/device/span.h"

namespace zeroshard::trainer {

// Seconds of one rank. What a step spends on the host between these (data, metrics) is in none of them.
struct StepBreakdown {
  double forward_s = 0;
  double recompute_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;       // norm, scalars, pass, adding reduced gradients to shards
  double gather_wait_s = 0;     // the compute stream waited for parameters
  double reduction_wait_s = 0;  // for gradients
  double other_wait_s = 0;      // for norms, losses, flags
};

StepBreakdown BreakDown(std::span<const device::Span> spans);

// One line without its end, with a zero after it; gives its length. 256 bytes hold any line. Allocates nothing.
size_t FormatBreakdown(const StepBreakdown& breakdown, double step_s, std::span<char> buffer);

}  // namespace zeroshard::trainer
