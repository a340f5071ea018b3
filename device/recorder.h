// Recorder: what a rank did, and when. Each Device has one; it is the only place where times are kept.
//
// Two records come from it. The flight record is always on: the latest kFlight collectives of the rank, all communicators
// together, for the moment when a run dies. Spans are off until somebody reserves memory and turns them on: a trace, a breakdown of
// steps. Nothing is allocated but in Reserve; what has no room is counted, not kept. Where spans are off, Begin is a branch.
//
// Threads: any thread may begin and end spans and operations. Flight() may be called at any time. size(), span() and Rewind() are
// for the thread that drives the rank, when no span is open and no collective is in flight.
//
// Example:
//   recorder.Reserve(10'000);
//   recorder.Turn(Recorder::Mode::kTrace);
//   { ScopedSpan span(stream, SpanKind::kForward, "h.3"); ... }      // scoped_span.h
//   for (int64_t i = 0; i < recorder.size(); ++i) Use(recorder.span(i));
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "zeroshard/device/brief_lock.h"
#include "zeroshard/device/prefetch.h"
#include "zeroshard/device/span.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

// Ranges of a profiler that watches the process: what a thread queues between Push and Pop is shown under the name. They nest.
struct RangeMarks {
  void (*push)(const char* name);
  void (*pop)();
};

constexpr Track TrackOf(StreamKind kind) { return static_cast<Track>(kind); }

class Recorder {
 public:
  static constexpr int kFlight = 256;

  enum class Mode : uint8_t {
    kOff,
    kSpans,  // all but collectives
    kTrace,  // collectives too
  };

  // What is known of a collective when it is issued.
  struct Issued {
    std::string_view name = {};
    std::string_view label = {};
    std::string_view group = {};
    uint64_t sequence = 0;
    int64_t count = 0;
    int64_t bytes = 0;
    DType dtype = DType::kUint8;
    bool control = false;
    Track track = 0;
  };
  // A collective that is under way: its entries in the two records. A copy speaks of the same one.
  struct Open {
    Span* flight = nullptr;
    Span* span = nullptr;  // null where spans of collectives are off
    uint64_t id = 0;
    int64_t step = -1;   // when it was issued
    bool brief = false;  // of IssueBrief
  };

  Recorder();

  Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  void Turn(Mode mode) { mode_.store(mode, std::memory_order_relaxed); }
  // Whether devices keep the times at which events are recorded (Event::recorded_ns).
  bool tracing() const { return mode() == Mode::kTrace; }
  // What else is told of spans while they are open, on the thread that opened them; null: nothing. A device sets it once; it lives on.
  void MarkRanges(const RangeMarks* marks) { marks_ = marks; }
  // Null where nothing is to be told now.
  const RangeMarks* marks() const { return tracing() ? marks_ : nullptr; }

  // The step that spans belong to from now on; -1: none.
  void SetStep(int64_t step) { step_.store(step, std::memory_order_relaxed); }

  // Memory for so many spans in all; what was kept stays. Mode is kOff.
  void Reserve(int64_t spans);
  int64_t size() const;
  const Span& span(int64_t i) const { return spans_[static_cast<size_t>(i)]; }
  // Forgets all spans but the first `size`.
  void Rewind(int64_t size) { next_.store(size, std::memory_order_relaxed); }
  // Spans that found no room, since the last Reserve.
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // A span that has not begun: whoever asked for it stamps begun_ns and ended_ns. Null where spans are off, or have no room.
  Span* Begin(SpanKind kind, Track track, std::string_view label);

  // A collective was issued; begins; ended. Ready: all that it comes after was done by then.
  Open Issue(const Issued& issued);
  // Began gives its time.
  static int64_t Began(const Open& open, int64_t ready_ns);
  // The first call counts.
  static void Ended(const Open& open);
  // One that takes about as long as reading a clock does, while nobody traces: it has its place from IssueBrief on, counts as issued
  // when it begins, and its times are the system's ticks'.
  Open IssueBrief();
  int64_t BeganBrief(const Open& open, const Issued& issued, int64_t ready_ns);

  // The latest operations, oldest first. From any thread.
  std::vector<Span> Flight() const;
  // The latest operation that has begun; its id is 0 where there was none. From any thread; allocates nothing.
  Span LastOperation() const;

  // A track for a communicator, and back. Names of tracks are in order of use: "communication", "communication 2", ...
  Track TakeTrack();
  void GiveTrackBack(Track track);

 private:
  static constexpr uint64_t kSlots = 2 * kFlight;

  Span* Room();
  Open Take();
  // Where its entry is no later one's by now. With the lock.
  void Fill(const Open& open, const Issued& issued, int64_t issued_ns, int64_t ready_ns, int64_t begun_ns);
  // Whether its entry of the flight record is its own still.
  static bool Holds(const Open& open) {
    return open.flight != nullptr && std::atomic_ref<uint64_t>(open.flight->id).load(std::memory_order_acquire) == open.id;
  }

  const RangeMarks* marks_ = nullptr;
  std::atomic<Mode> mode_{Mode::kOff};
  std::atomic<int64_t> step_{-1};
  std::vector<Span> spans_;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> dropped_{0};

  std::atomic<uint64_t> issued_{0};
  mutable BriefLock lock_;    // of what follows
  std::vector<Span> flight_;  // a ring, by id; twice as long as what is shown, so that what is in flight is not overwritten
  uint32_t tracks_ = 0;       // a bit for each that is taken
};

// Inline, since a collective of a few bytes takes little longer.
inline Recorder::Open Recorder::Take() {
  Open open;
  open.id = issued_.fetch_add(1, std::memory_order_relaxed) + 1;
  open.flight = &flight_[open.id % kSlots];
  open.step = step_.load(std::memory_order_relaxed);
  return open;
}

// Each field by itself: what is set as a whole costs more than all the rest.
[[gnu::always_inline]] inline void Recorder::Fill(const Open& open, const Issued& issued, int64_t issued_ns,
                                                  int64_t ready_ns, int64_t begun_ns) {
  Span& span = *open.flight;
  if (span.id > open.id) return;
  std::atomic_ref<uint64_t>(span.id).store(open.id, std::memory_order_release);
  span.sequence = issued.sequence;
  span.step = open.step;
  span.count = issued.count;
  span.bytes = issued.bytes;
  Store(span.issued_ns, issued_ns);
  Store(span.ready_ns, ready_ns);
  Store(span.begun_ns, begun_ns);
  Store(span.ended_ns, 0);
  Assign(span.label, issued.label);
  Assign(span.group, issued.group);
  Assign(span.name, issued.name);
  span.kind = SpanKind::kCollective;
  span.track = issued.track;
  span.dtype = issued.dtype;
  span.control = issued.control;
  PrefetchToWrite(flight_[(open.id + 1) % kSlots]);  // which was last used long ago
}

inline Recorder::Open Recorder::Issue(const Issued& issued) {
  const int64_t now = NowNs();
  Open open = Take();
  if (tracing()) open.span = Room();
  const std::lock_guard<BriefLock> lock(lock_);
  Fill(open, issued, now, 0, 0);
  if (open.span != nullptr) *open.span = *open.flight;
  return open;
}

inline Recorder::Open Recorder::IssueBrief() {
  Open open = Take();
  open.brief = true;
  return open;
}

inline int64_t Recorder::Began(const Open& open, int64_t ready_ns) {
  const int64_t now = NowNs();
  for (Span* span : {Holds(open) ? open.flight : nullptr, open.span}) {
    if (span == nullptr) continue;
    Store(span->ready_ns, ready_ns);
    Store(span->begun_ns, now);
  }
  return now;
}

[[gnu::always_inline]] inline int64_t Recorder::BeganBrief(const Open& open, const Issued& issued, int64_t ready_ns) {
  const int64_t now = TimeNs(kTicks);
  const std::lock_guard<BriefLock> lock(lock_);
  Fill(open, issued, now, ready_ns, now);
  return now;
}

inline void Recorder::Ended(const Open& open) {
  if (!Holds(open) || Load(open.flight->ended_ns) != 0) return;
  const int64_t now = TimeNs(open.brief ? kTicks : CLOCK_MONOTONIC);
  Store(open.flight->ended_ns, now);
  // A stream may have stamped it.
  if (open.span != nullptr && Load(open.span->ended_ns) == 0) Store(open.span->ended_ns, now);
}

}  // namespace zeroshard::device
