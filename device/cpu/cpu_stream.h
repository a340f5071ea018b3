// CpuStream: runs each operation at once, on the caller; a wait holds the caller.
//
// Example:
//   CpuStream stream(device, StreamKind::kCompute);
//   stream.Wait(*gathered_ready);   // returns when it is recorded
#pragma once

#include "zeroshard/device/stream.h"

namespace zeroshard::device {

class CpuStream final : public Stream {
 public:
  CpuStream(Device& device, StreamKind kind) : device_(device), kind_(kind) {}

  Device& device() override { return device_; }
  StreamKind kind() const override { return kind_; }

  void Record(Event& event) override;
  void Wait(const Event& event) override;
  void Synchronize() override {}
  void Enqueue(const Operation& operation) override;

 private:
  Device& device_;
  const StreamKind kind_;
};

}  // namespace zeroshard::device
