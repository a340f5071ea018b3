// LateStream and LateEvent: the engine's queues and records as a Stream and an Event.
//
// Example:
//   LateStream stream(device, engine, StreamKind::kCompute);
#pragma once

#include <memory>
#include <utility>

#include "zeroshard/device/event.h"
#include "zeroshard/device/late/late_engine.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

class LateEvent final : public Event {
 public:
  explicit LateEvent(std::shared_ptr<LateEngine> engine) : engine_(std::move(engine)) {}

  void Expect() override { engine_->Expect(record_); }
  bool Done() const override { return engine_->Done(record_); }
  void Synchronize() const override { engine_->Synchronize(record_); }

 private:
  friend class LateStream;
  const std::shared_ptr<LateEngine> engine_;
  LateRecord record_;  // Under the engine's lock.
};

class LateStream final : public Stream {
 public:
  LateStream(Device& device, std::shared_ptr<LateEngine> engine, StreamKind kind)
      : device_(device), engine_(std::move(engine)), kind_(kind), id_(engine_->AddStream(kind)) {}
  // What is queued is run to the end, as on a GPU.
  ~LateStream() override { engine_->Drain(id_); }

  Device& device() override { return device_; }
  StreamKind kind() const override { return kind_; }
  void Record(Event& event) override { engine_->Record(id_, static_cast<LateEvent&>(event).record_); }
  void Wait(const Event& event) override { engine_->Wait(id_, static_cast<const LateEvent&>(event).record_); }
  void Synchronize() override { engine_->Synchronize(id_); }
  void Enqueue(const Operation& operation) override { engine_->Enqueue(id_, operation); }

 private:
  Device& device_;
  const std::shared_ptr<LateEngine> engine_;
  const StreamKind kind_;
  const int id_;
};

}  // namespace zeroshard::device
