// Carries a micro-batch's tokens to the device: checked, padded to the planned rows, and copied through host memory of its own, so
// that the caller's spans may be dropped at once. Two stages take turns; a third micro-batch waits for the copy of the first.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(TokenStage stage, TokenStage::Allocate(device, options));
//   ZS_RETURN_IF_ERROR(stage.Copy(stream, micro_batch, activations.inputs, activations.targets));
//   stage.target_tokens();
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gpt_options.h"
#include "zeroshard/model/micro_batch.h"

namespace zeroshard::model {

class TokenStage {
 public:
  // Errors: kResourceExhausted.
  static absl::StatusOr<TokenStage> Allocate(device::Device& device, const GptOptions& options);
  // Host bytes that Allocate takes.
  static int64_t Bytes(const GptOptions& options);

  // Queues the copies to inputs and targets, each int32 [batch * context].
  // Errors: kInvalidArgument for a number of rows, a size, or a token, naming where it is.
  absl::Status Copy(device::Stream& stream, const MicroBatch& micro_batch, device::Out inputs, device::Out targets);

  // Targets of the last micro-batch that are not kNoTarget.
  int64_t target_tokens() const { return target_tokens_; }

 private:
  struct Slot {
    device::Buffer memory;  // inputs, then targets
    int32_t* tokens = nullptr;
    std::unique_ptr<device::Event> copied;
  };
  absl::Status Check(const MicroBatch& micro_batch) const;

  GptOptions options_;
  std::array<Slot, 2> slots_;
  int next_ = 0;
  int64_t target_tokens_ = 0;
};

}  // namespace zeroshard::model
