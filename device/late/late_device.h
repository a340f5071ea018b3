// device/late: a Device for tests, whose memory host code cannot touch, whose streams run as late as they may, and which
// ends the process (exit code 99, the reason on stderr) at the first fault in the order of operations.
//
// Faults: two accesses to the same bytes, one of them a write, that neither a stream's own order nor an event orders; a
// range outside its allocation, or of one that was dropped; a Buffer dropped while a queued operation uses it. Races are
// found by clocks over the declared ranges: in every run, whatever ran first. HostAddress gives null, Adopt is
// kUnimplemented.
//
// Ranks are devices; a device may be used by several threads. What a thread learned by Synchronize counts for itself and for
// whoever it hands work to by Event::Expect (late_engine.h).
//
// Example:
//   auto device = MakeLateDevice({.order = LateOrder::kRandom, .seed = 3});
//   ... one step ...
//   for (WaitPoint point : device->waits()) {      // each in a forked child:
//     auto broken = MakeLateDevice();
//     broken->LeaveOutWait(point);
//     ... the same step must exit with 99 ...
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zeroshard/device/device.h"
#include "zeroshard/device/late/late_options.h"

namespace zeroshard::device {

class LateDevice : public Device {
 public:
  // Every wait so far that ordered anything, of all streams.
  virtual std::vector<WaitPoint> waits() = 0;
  // From now on that wait orders nothing (it still holds its caller until the record is there). To be called before it
  // comes; the stream need not exist yet.
  virtual void LeaveOutWait(const WaitPoint& point) = 0;
};

std::unique_ptr<LateDevice> MakeLateDevice(const LateOptions& options = {});

}  // namespace zeroshard::device
