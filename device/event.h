// A point in the work of a stream that others wait for: on streams (Stream::Wait), or on the host (Synchronize).
//
// An Event may be recorded again and again; a wait is for the latest record. One that was never recorded is done.
//
// Note: Expect. Work that another thread is going to queue (a collective on the communicator's thread) has an end before
// anybody could record it. Whoever issues such work calls Expect() first: from then on, and until the next Record, the event is
// not done, and Stream::Wait and Synchronize hold the calling thread until the record is there. Whoever calls Expect sees to it
// that Record follows, also where the work failed.
#pragma once

#include <cstdint>

namespace zeroshard::device {

class Event {
 public:
  virtual ~Event() = default;

  // See "Note: Expect". Thread-safe.
  virtual void Expect() = 0;
  // Whether all work before the latest record has ended. Thread-safe.
  virtual bool Done() const = 0;
  // Holds the host until Done(); spins briefly, then sleeps. Thread-safe.
  virtual void Synchronize() const = 0;
  // When the latest record was done (span.h); 0: not known. Kept only while the device's recorder is tracing.
  virtual int64_t recorded_ns() const { return 0; }
};

}  // namespace zeroshard::device
