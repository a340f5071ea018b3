// The inputs of groups of blocks (checkpoint_groups.h), each [rows, width] fp32, from their forward to their backward.
//
// On the device each has its place. On the host each has its place in the memory of Device::host(), in whose ledger it is, and the device two slots that groups take in
// turn: group g goes down from slot g % 2 while the group computes, and comes up into it while backward is at group g + 1 and
// g + 2; on streams of their own, ordered by each slot's events.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto checkpoints, ActivationCheckpoints::Allocate(device, options));
//   checkpoints->Keep(stream, group, residual);      // forward
//   checkpoints->BeginBackward();
//   checkpoints->Restore(stream, group, residual);   // backward, groups in reverse
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gpt_options.h"

namespace zeroshard::model {

class ActivationCheckpoints {
 public:
  // Errors: kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<ActivationCheckpoints>> Allocate(device::Device& device, const GptOptions& options);
  // Bytes that Allocate takes: of the device, and of its host.
  static int64_t DeviceBytes(const GptOptions& options);
  static int64_t HostBytes(const GptOptions& options);

  // Waits for its copies.
  ~ActivationCheckpoints();
  ActivationCheckpoints(const ActivationCheckpoints&) = delete;
  ActivationCheckpoints& operator=(const ActivationCheckpoints&) = delete;

  // Keeps `residual`, the input of `group`, as `compute` leaves it.
  void Keep(device::Stream& compute, int64_t group, device::In residual);
  // What waits on the host sets out for the device.
  void BeginBackward();
  // residual = the input of `group`; groups go in reverse, each once.
  void Restore(device::Stream& compute, int64_t group, device::Out residual);

 private:
  struct Slot {
    std::unique_ptr<device::Event> filled;  // its last writer: compute in forward, up_ in backward
    std::unique_ptr<device::Event> read;    // its last reader: down_ in forward, compute in backward
  };
  ActivationCheckpoints(device::Device& device, const GptOptions& options);
  void FetchIntoSlot(int64_t group);
  float* host(int64_t group) const { return host_ + group * elements_; }
  Slot& slot(int64_t group) { return slots_[static_cast<size_t>(group) % slots_.size()]; }
  // Where a group's input is on the device.
  device::Array place(int64_t group) const;

  device::Device& device_;
  const int64_t groups_;
  const int64_t elements_;  // of one input
  const bool on_host_;
  device::Buffer memory_;
  device::Buffer host_memory_;
  float* host_ = nullptr;
  std::array<Slot, 2> slots_;
  std::unique_ptr<device::Stream> down_, up_;
};

}  // namespace zeroshard::model
