#include "zeroshard/device/recorder.h"

#include <algorithm>
#include <bit>

#include "zeroshard/device/prefetch.h"

namespace zeroshard::device {
namespace {

constexpr uint64_t kSlots = 2 * Recorder::kFlight;
constexpr int kCommunicators = 31;  // the last track is shared by all that come later

// Of a span whose times another thread may be writing.
Span CopyOf(const Span& span) {
  Span copy;
  copy.id = std::atomic_ref<uint64_t>(const_cast<uint64_t&>(span.id)).load(std::memory_order_acquire);
  copy.sequence = span.sequence;
  copy.step = span.step;
  copy.count = span.count;
  copy.bytes = span.bytes;
  copy.issued_ns = Load(span.issued_ns);
  copy.ready_ns = Load(span.ready_ns);
  copy.begun_ns = Load(span.begun_ns);
  copy.ended_ns = Load(span.ended_ns);
  copy.label = span.label;
  copy.group = span.group;
  copy.name = span.name;
  copy.kind = span.kind;
  copy.track = span.track;
  copy.dtype = span.dtype;
  copy.control = span.control;
  return copy;
}

bool Holds(const Recorder::Open& open) {
  return open.flight != nullptr && std::atomic_ref<uint64_t>(open.flight->id).load(std::memory_order_acquire) == open.id;
}

}  // namespace

Recorder::Recorder() : flight_(kSlots) {}

void Recorder::Reserve(int64_t spans) {
  spans_.resize(static_cast<size_t>(spans));
  dropped_.store(0, std::memory_order_relaxed);
}

int64_t Recorder::size() const {
  return std::min(next_.load(std::memory_order_relaxed), static_cast<int64_t>(spans_.size()));
}

Span* Recorder::Room() {
  const int64_t at = next_.fetch_add(1, std::memory_order_relaxed);
  if (at < static_cast<int64_t>(spans_.size())) return &spans_[static_cast<size_t>(at)];
  dropped_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

Span* Recorder::Begin(SpanKind kind, Track track, std::string_view label) {
  if (mode() == Mode::kOff) return nullptr;
  Span* span = Room();
  if (span == nullptr) return nullptr;
  *span = Span();
  span->kind = kind;
  span->track = track;
  span->step = step_.load(std::memory_order_relaxed);
  Assign(span->label, label);
  return span;
}

// Each field by itself: what is set as a whole costs more than all the rest.
Recorder::Open Recorder::Issue(const Issued& issued) {
  Open open;
  if (issued.brief && !tracing()) open.clock = &LastTickNs;
  const int64_t now = open.clock();
  if (tracing()) open.span = Room();
  std::lock_guard<std::mutex> lock(mutex_);
  open.id = ++issued_;
  open.flight = &flight_[open.id % kSlots];
  Span& span = *open.flight;
  span.id = open.id;
  span.sequence = issued.sequence;
  span.step = step_.load(std::memory_order_relaxed);
  span.count = issued.count;
  span.bytes = issued.bytes;
  span.issued_ns = now;
  Store(span.ready_ns, 0);
  Store(span.begun_ns, 0);
  Store(span.ended_ns, 0);
  Assign(span.label, issued.label);
  Assign(span.group, issued.group);
  Assign(span.name, issued.name);
  span.kind = SpanKind::kCollective;
  span.track = issued.track;
  span.dtype = issued.dtype;
  span.control = issued.control;
  if (open.span != nullptr) *open.span = span;
  PrefetchToWrite(flight_[(open.id + 1) % kSlots]);  // which was last used long ago
  return open;
}

void Recorder::Began(const Open& open, int64_t ready_ns) {
  const int64_t now = open.clock();
  for (Span* span : {Holds(open) ? open.flight : nullptr, open.span}) {
    if (span == nullptr) continue;
    Store(span->ready_ns, ready_ns);
    Store(span->begun_ns, now);
  }
}

void Recorder::Ended(const Open& open) {
  const bool held = Holds(open);
  if (!held || Load(open.flight->ended_ns) != 0) return;
  const int64_t now = open.clock();
  Store(open.flight->ended_ns, now);
  // A stream may have stamped it.
  if (open.span != nullptr && Load(open.span->ended_ns) == 0) Store(open.span->ended_ns, now);
}

std::vector<Span> Recorder::Flight() const {
  std::vector<Span> latest;
  latest.reserve(kFlight);
  std::lock_guard<std::mutex> lock(mutex_);
  for (uint64_t id = issued_ - std::min<uint64_t>(issued_, kFlight) + 1; id <= issued_; ++id) {
    latest.push_back(CopyOf(flight_[id % kSlots]));
  }
  return latest;
}

Span Recorder::LastOperation() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return issued_ == 0 ? Span() : CopyOf(flight_[issued_ % kSlots]);
}

Track Recorder::TakeTrack() {
  std::lock_guard<std::mutex> lock(mutex_);
  const int first = std::min(std::countr_one(tracks_), kCommunicators);
  tracks_ |= uint32_t{1} << first;
  return static_cast<Track>(kFirstCommunicatorTrack + first);
}

void Recorder::GiveTrackBack(Track track) {
  const int bit = track - kFirstCommunicatorTrack;
  std::lock_guard<std::mutex> lock(mutex_);
  if (bit < kCommunicators) tracks_ &= ~(uint32_t{1} << bit);
}

}  // namespace zeroshard::device
