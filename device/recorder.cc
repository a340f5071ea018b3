#include "zeroshard/device/recorder.h"

#include <algorithm>
#include <bit>

namespace zeroshard::device {
namespace {

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

std::vector<Span> Recorder::Flight() const {
  std::vector<Span> latest;
  latest.reserve(kFlight);
  const std::lock_guard<BriefLock> lock(lock_);
  const uint64_t issued = issued_.load(std::memory_order_relaxed);
  for (uint64_t id = issued - std::min<uint64_t>(issued, kFlight) + 1; id <= issued; ++id) {
    const Span& span = flight_[id % kSlots];
    if (span.id == id) latest.push_back(CopyOf(span));
  }
  return latest;
}

Span Recorder::LastOperation() const {
  const std::lock_guard<BriefLock> lock(lock_);
  const uint64_t issued = issued_.load(std::memory_order_relaxed);
  for (uint64_t id = issued; id + kFlight > issued && id > 0; --id) {
    const Span& span = flight_[id % kSlots];
    if (span.id == id && Load(span.begun_ns) != 0) return CopyOf(span);
  }
  return {};
}

Track Recorder::TakeTrack() {
  const std::lock_guard<BriefLock> lock(lock_);
  const int first = std::min(std::countr_one(tracks_), kCommunicators);
  tracks_ |= uint32_t{1} << first;
  return static_cast<Track>(kFirstCommunicatorTrack + first);
}

void Recorder::GiveTrackBack(Track track) {
  const int bit = track - kFirstCommunicatorTrack;
  const std::lock_guard<BriefLock> lock(lock_);
  if (bit < kCommunicators) tracks_ &= ~(uint32_t{1} << bit);
}

}  // namespace zeroshard::device
