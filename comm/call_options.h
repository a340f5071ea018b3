// What a caller may say about one collective, beside its data.
//
// Example:
//   communicator.ReduceScatter(segments, ReduceOp::kSum,
//                              {.after = {&backward_done}, .traffic = Traffic::kData, .label = "block 3"});
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "zeroshard/device/array.h"
#include "zeroshard/device/event.h"

namespace zeroshard::comm {

// Which column of the wire ledger a call's bytes are counted in: gradients and parameters are data, all the rest control.
enum class Traffic : uint8_t { kData, kControl };

inline constexpr int kMaxAfter = 4;

struct CallOptions {
  // The operation touches nothing before these are done. Null entries are none. They outlive the Work.
  std::array<const device::Event*, kMaxAfter> after = {};
  // The caller is going to wait for it at once: where nothing is in flight, Wait() or WaitOn() runs it on the caller.
  bool wait_at_once = false;
  Traffic traffic = Traffic::kData;
  // What is recorded at its end, in place of the communicator's own event, which a later operation takes over (Communicator::kRing):
  // for whoever makes work of another communicator come after this one. Free, and outlives the operation.
  device::Event* end = nullptr;
  // Who asks, for error messages and the flight recorder: a unit's name. Outlives the Work.
  std::string_view label = {};
};

// One stretch of a collective over several stretches of memory: one header, one sequence number, one Work for all of them.
// Counts and strides are the same on every rank.
//   all-reduce, reduce, broadcast: in [count] -> out [count]; stride is not used.
//   reduce-scatter: part r is in[r * stride, r * stride + count) -> out [count]; `in` has (world_size - 1) * stride + count
//     elements. stride == count is the plain case.
//   all-gather: in [count] -> part r to out[r * stride, r * stride + count).
struct Segment {
  device::Array in;
  device::Array out;
  int64_t stride = 0;
};

}  // namespace zeroshard::comm
