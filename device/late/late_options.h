// When device/late runs what was queued, and how its waits are told apart.
//
// Example:
//   auto device = MakeLateDevice({.order = LateOrder::kRandom, .seed = 7});
#pragma once

#include <cstdint>

#include "zeroshard/device/stream.h"

namespace zeroshard::device {

enum class LateOrder : uint8_t {
  kAtOnce,    // As it is queued.
  kLazy,      // Only when somebody waits for it, and no more than that needs.
  kOneFirst,  // Streams of one kind as it is queued, the others only when somebody waits.
  kRandom,    // Any stream's next operation at any time, by seed.
};

struct LateOptions {
  LateOrder order = LateOrder::kLazy;
  StreamKind first = StreamKind::kCommunication;  // Of kOneFirst.
  uint32_t seed = 1;                              // Of kRandom.
  int threads = 1;                                // Of products and kernels.
};

// The index-th Stream::Wait that ordered anything on the stream-th stream, by order of creation. Waits that tell a stream
// nothing new are not counted: nobody would miss them. Nor would anybody miss one that a later wait of the stream tells all of again
// before anything is queued or recorded: it is counted, and left out of every list.
struct WaitPoint {
  int stream = 0;
  int64_t index = 0;
};

}  // namespace zeroshard::device
