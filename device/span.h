// Span: what a rank's time went to, from one moment to another: a unit's forward, a collective, a wait.
//
// Times are nanoseconds of the host's CLOCK_MONOTONIC, 0 where it has not come to that. On device/cpu an operation runs where it is
// queued, so times are the host's; a device that runs later writes them when it comes past (Stream::Stamp). So a span may be
// unfinished still when whoever queued its end has returned: read it after the stream or the Work was waited for.
//
// A Span is bytes: it travels between ranks as it is. Its times are written by another thread perhaps: Load and Store are how.
//
// Example:
//   span.kind == SpanKind::kForward && View(span.label) == "h.3" && span.ended_ns - span.begun_ns
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <type_traits>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

enum class SpanKind : uint8_t {
  kStep,        // all of a training step, on the host's track
  kRead,        // the host reads a micro-batch
  kForward,     // of one unit, as the next two
  kBackward,    //
  kRecompute,   // forward again, for backward's sake
  kEvaluate,    // forward of a unit in an evaluation
  kNorm,        // squares of gradients, and the step's scalars
  kOptimizer,   // the optimizer's pass
  kAccumulate,  // reduced gradients are added to a shard
  kCopy,        // between tiers of memory
  kCollective,  // one operation of a communicator
  kWait,        // a stream waits for a collective
  kHostWait,    // the host does
};

// "step", "read", "forward", ...; of a collective, its name says more.
constexpr std::string_view Name(SpanKind kind) {
  constexpr std::string_view kNames[] = {"step",      "read",       "forward", "backward",   "recompute", "evaluate", "norm",
                                         "optimizer", "accumulate", "copy",    "collective", "wait",      "host wait"};
  return kNames[static_cast<int>(kind)];
}

// Where a span lies: what is on one track follows one another, or nests.
// Streams first, by StreamKind (recorder.h).
using Track = uint8_t;
inline constexpr Track kHostTrack = 4;               // the thread that drives the rank
inline constexpr Track kFirstCommunicatorTrack = 8;  // one for each communicator

// Text of a fixed size; what is longer is cut off. It ends with a zero, or at its capacity.
template <size_t kSize>
using FixedText = std::array<char, kSize>;

template <size_t kSize>
void Assign(FixedText<kSize>& to, std::string_view from) {
  const size_t length = std::min(from.size(), kSize);
  std::copy_n(from.data(), length, to.data());
  if (length < kSize) to[length] = '\0';
}

template <size_t kSize>
std::string_view View(const FixedText<kSize>& text) {
  return {text.data(), static_cast<size_t>(std::find(text.begin(), text.end(), '\0') - text.begin())};
}

struct Span {
  uint64_t id = 0;        // of its recorder; 0: none
  uint64_t sequence = 0;  // of a collective, and of the one that is waited for; 0: none
  int64_t step = -1;      // the training step; -1: outside
  int64_t count = 0;      // elements, as the collective counts them
  int64_t bytes = 0;
  int64_t issued_ns = 0;  // a collective was called
  int64_t ready_ns = 0;   // all that it was told to come after had been done; 0: nothing, or not known
  int64_t begun_ns = 0;
  int64_t ended_ns = 0;
  FixedText<40> label = {};  // a unit, or what the caller said
  FixedText<32> group = {};  // of a collective: the ranks that it is of, "shard group 0-1"; empty: all
  FixedText<14> name = {};   // of a collective: "all-gather"
  SpanKind kind = SpanKind::kStep;
  Track track = 0;
  Track other_track = 0;  // of a wait: the communicator's that is waited for
  DType dtype = DType::kUint8;
  bool control = false;  // not data: norms, losses, flags
  uint8_t unused[5] = {};
};
static_assert(std::is_trivially_copyable_v<Span> && sizeof(Span) == 168);

inline int64_t Load(const int64_t& time) {
  return std::atomic_ref<int64_t>(const_cast<int64_t&>(time)).load(std::memory_order_acquire);
}
inline void Store(int64_t& time, int64_t value) { std::atomic_ref<int64_t>(time).store(value, std::memory_order_release); }

inline int64_t TimeNs(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}
inline int64_t NowNs() { return TimeNs(CLOCK_MONOTONIC); }
// The clock of NowNs as of the system's last tick, some milliseconds ago; costs a fifth.
inline constexpr clockid_t kTicks = CLOCK_MONOTONIC_COARSE;

}  // namespace zeroshard::device
