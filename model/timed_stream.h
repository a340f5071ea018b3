// A stream of device/cpu that adds up the thread's processor time of each operation by its name, for benchmarks.
//
// Example:
//   TimedStream stream(*device);
//   stream.set_section("head");
//   ... queue work ...
//   stream.seconds();  // {"head: product": 0.84, ...}
#pragma once

#include <map>
#include <memory>
#include <string>

#include "zeroshard/device/device.h"

namespace zeroshard::model {

// Processor time of the calling thread, in seconds.
double ThreadSeconds();

class TimedStream final : public device::Stream {
 public:
  explicit TimedStream(device::Device& device) : inner_(device.MakeStream(device::StreamKind::kCompute)) {}

  void set_section(std::string section) { section_ = std::move(section); }
  const std::map<std::string, double>& seconds() const { return seconds_; }
  void clear() { seconds_.clear(); }

  device::Device& device() override { return inner_->device(); }
  device::StreamKind kind() const override { return inner_->kind(); }
  void Record(device::Event& event) override { inner_->Record(event); }
  void Wait(const device::Event& event) override { inner_->Wait(event); }
  void Synchronize() override { inner_->Synchronize(); }
  void Enqueue(const device::Operation& operation) override;

 private:
  std::unique_ptr<device::Stream> inner_;
  std::string section_;
  std::map<std::string, double> seconds_;
};

}  // namespace zeroshard::model
