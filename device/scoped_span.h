// ScopedSpan: what is queued on a stream, or done by the host, while it lives, is one span of the device's recorder.
//
// Where spans are off it is a branch. It may be empty (label views are copied), and never allocates.
//
// Example:
//   {
//     ScopedSpan span(stream, SpanKind::kForward, "h.3");
//     ... queue the unit's forward ...
//   }
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "zeroshard/device/device.h"
#include "zeroshard/device/recorder.h"

namespace zeroshard::device {

class ScopedSpan {
 public:
  // On a stream's track: begins when the stream has come here, ends when it has done what is queued meanwhile.
  ScopedSpan(Stream& stream, SpanKind kind, std::string_view label = {}, int64_t bytes = 0) : stream_(&stream) {
    Begin(stream.device().recorder(), kind, TrackOf(stream.kind()), label, bytes);
    if (span_ != nullptr) stream.Stamp(span_->begun_ns);
  }
  // On the host's track.
  ScopedSpan(Device& device, SpanKind kind, std::string_view label = {}) {
    Begin(device.recorder(), kind, kHostTrack, label, 0);
    if (span_ != nullptr) Store(span_->begun_ns, NowNs());
  }
  ~ScopedSpan() {
    if (marks_ != nullptr) marks_->pop();
    if (span_ == nullptr) return;
    if (stream_ != nullptr) {
      stream_->Stamp(span_->ended_ns);
    } else {
      Store(span_->ended_ns, NowNs());
    }
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

  // Null where spans are off.
  Span* span() const { return span_; }

 private:
  void Begin(Recorder& recorder, SpanKind kind, Track track, std::string_view label, int64_t bytes) {
    if (recorder.mode() == Recorder::Mode::kOff) return;
    marks_ = recorder.marks();
    if (marks_ != nullptr) marks_->push(RangeName(kind, label).data());
    span_ = recorder.Begin(kind, track, label);
    if (span_ != nullptr) span_->bytes = bytes;
  }

  // "forward h.3"
  static FixedText<64> RangeName(SpanKind kind, std::string_view label) {
    FixedText<64> name = {};
    const std::string_view first = Name(kind);
    std::copy(first.begin(), first.end(), name.begin());
    if (label.empty()) return name;
    name[first.size()] = ' ';
    const size_t room = name.size() - first.size() - 2;
    std::copy_n(label.data(), std::min(label.size(), room), name.begin() + static_cast<ptrdiff_t>(first.size()) + 1);
    return name;
  }

  const RangeMarks* marks_ = nullptr;
  Stream* stream_ = nullptr;
  Span* span_ = nullptr;
};

}  // namespace zeroshard::device
