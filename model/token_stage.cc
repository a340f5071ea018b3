#include "zeroshard/model/token_stage.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::model {
namespace {

absl::Status CheckTokens(const char* what, std::span<const int32_t> tokens, int32_t least, const GptOptions& options) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= least && tokens[i] < options.vocab) continue;
    const int64_t at = static_cast<int64_t>(i);
    return absl::InvalidArgumentError(absl::StrCat(what, " token ", tokens[i], " in row ", at / options.context,
                                                   ", position ", at % options.context, ": must be below the vocabulary's ",
                                                   options.vocab, least < 0 ? ", or -1 for none" : " and at least 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenStage> TokenStage::Allocate(device::Device& device, const GptOptions& options) {
  TokenStage stage;
  stage.options_ = options;
  for (Slot& slot : stage.slots_) {
    const int64_t bytes = Bytes(options) / static_cast<int64_t>(stage.slots_.size());
    ZS_ASSIGN_OR_RETURN(slot.memory,
                        device.AllocateHost(bytes, device::Use::kActivations, "tokens on their way to the device"));
    slot.tokens = static_cast<int32_t*>(device.HostPointer(slot.memory));
    slot.copied = device.MakeEvent();
  }
  return stage;
}

int64_t TokenStage::Bytes(const GptOptions& options) {
  return 2 * 2 * options.batch * options.context * static_cast<int64_t>(sizeof(int32_t));
}

absl::Status TokenStage::Check(const MicroBatch& micro_batch) const {
  if (micro_batch.rows < 0 || micro_batch.rows > options_.batch) {
    return absl::InvalidArgumentError(
        absl::StrCat("a micro-batch of ", micro_batch.rows, " rows: must be 0 to batch = ", options_.batch));
  }
  const int64_t tokens = micro_batch.rows * options_.context, targets = micro_batch.purpose == Purpose::kSample ? 0 : tokens;
  const auto sized = [](std::span<const int32_t> span, int64_t size) { return static_cast<int64_t>(span.size()) == size; };
  if (!sized(micro_batch.inputs, tokens) || !sized(micro_batch.targets, targets)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a micro-batch of ", micro_batch.rows, " rows of context = ", options_.context, " takes ", tokens, " inputs and ",
        targets, " targets, not ", micro_batch.inputs.size(), " and ", micro_batch.targets.size()));
  }
  ZS_RETURN_IF_ERROR(CheckTokens("input", micro_batch.inputs, 0, options_));
  return CheckTokens("target", micro_batch.targets, kNoTarget, options_);
}

absl::Status TokenStage::Copy(device::Stream& stream, const MicroBatch& micro_batch, device::Out inputs,
                              device::Out targets) {
  ZS_RETURN_IF_ERROR(Check(micro_batch));
  Slot& slot = slots_[next_];
  next_ = 1 - next_;
  slot.copied->Synchronize();
  int32_t* from = slot.tokens;
  int32_t* end = std::copy(micro_batch.inputs.begin(), micro_batch.inputs.end(), from);
  std::fill(end, from + inputs.array.elements(), 0);
  int32_t* from_targets = from + inputs.array.elements();
  end = std::copy(micro_batch.targets.begin(), micro_batch.targets.end(), from_targets);
  std::fill(end, from_targets + targets.array.elements(), kNoTarget);
  target_tokens_ = std::count_if(micro_batch.targets.begin(), micro_batch.targets.end(), [](int32_t t) { return t >= 0; });
  stream.device().CopyFromHost(stream, from, inputs);
  stream.device().CopyFromHost(stream, from_targets, targets);
  stream.Record(*slot.copied);
  return absl::OkStatus();
}

}  // namespace zeroshard::model
