// A queue of operations of one device: they run in the order in which they were queued, and unordered against other streams
// but for events.
//
// device/cpu runs an operation at once, on the caller. device/late (tests) runs it as late as the order allows, and ends the
// test at two unordered accesses. A stream is used by one thread at a time.
//
// Example:
//   compute.Wait(gathered.ready);               // on the stream, never on the host
//   elementwise.Scale(compute, x, 0.5f);
//   compute.Record(gathered.released);
#pragma once

#include <cstdint>
#include <span>

#include "zeroshard/device/array.h"
#include "zeroshard/device/event.h"

namespace zeroshard::device {

class Device;

enum class StreamKind : uint8_t { kCompute, kCommunication, kCopyDown, kCopyUp };

// A range of device memory that an operation touches.
struct Access {
  uint64_t address;
  int64_t bytes;
  AccessMode mode;
};

// Turns a device address into one that host code may touch; handed to an operation while it runs. See host_launch.h.
class AddressMap {
 public:
  virtual ~AddressMap() = default;
  virtual void* Resolve(uint64_t address, int64_t bytes) const = 0;
};

// An operation on host memory, as a stream takes it: what it touches, and a closure on the caller's stack. A stream that runs
// it later copies the closure. Made by HostLaunch alone.
struct Operation {
  const char* name;
  std::span<const Access> accesses;
  const void* closure;
  void (*run)(const void* closure, const AddressMap& map);
  void* (*clone)(const void* closure);
  void (*destroy)(void* closure);
};

class Stream {
 public:
  virtual ~Stream() = default;

  virtual Device& device() = 0;
  virtual StreamKind kind() const = 0;

  // `event` is done when all that was queued before this call is done.
  virtual void Record(Event& event) = 0;
  // What is queued after this call begins when `event`'s latest record is done. On device/cpu the caller waits.
  virtual void Wait(const Event& event) = 0;
  // Holds the host until all that was queued is done.
  virtual void Synchronize() = 0;

  // Queues an operation on host memory. Only devices whose memory is the host's take it (device/cpu, device/late).
  virtual void Enqueue(const Operation& operation) = 0;

  // Writes the time (span.h) into `time` when all that was queued before this call is done; `time` outlives that. Where operations
  // run as they are queued, that is now.
  virtual void Stamp(int64_t& time);
};

}  // namespace zeroshard::device
