#include "zeroshard/device/cpu/cpu_stream.h"

#include "zeroshard/device/cpu/cpu_event.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/span.h"

namespace zeroshard::device {
namespace {

class Identity final : public AddressMap {
 public:
  void* Resolve(uint64_t address, int64_t /*bytes*/) const override { return reinterpret_cast<void*>(address); }
};

}  // namespace

void CpuStream::Record(Event& event) {
  static_cast<CpuEvent&>(event).MarkRecorded(device_.recorder().tracing() ? NowNs() : 0);
}

void CpuStream::Wait(const Event& event) { event.Synchronize(); }

void CpuStream::Enqueue(const Operation& operation) { operation.run(operation.closure, Identity()); }

}  // namespace zeroshard::device
