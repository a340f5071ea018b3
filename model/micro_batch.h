// The tokens of one micro-batch on one rank, and what a forward pass over them is for.
//
// Example:
//   MicroBatch micro_batch{.inputs = x, .targets = y, .rows = 4, .gradient_scale = 1.0 / tokens};
#pragma once

#include <cstdint>
#include <span>

#include "zeroshard/device/array.h"

namespace zeroshard::model {

// A target that is none: its token adds nothing to loss and gradients.
inline constexpr int32_t kNoTarget = -1;

// What a forward pass is for. The head's logits are never held in full; so a training pass leaves the loss to the head's backward,
// which computes both from each block of logits at once.
enum class Purpose : uint8_t {
  kTrain,     // loss_sum() is there after Backward of the head
  kEvaluate,  // loss_sum() is there after Forward of the head; no backward
  kSample,    // no targets; Logits() after Forward of the head
};

struct MicroBatch {
  std::span<const int32_t> inputs;   // [rows, context], each in [0, vocab)
  std::span<const int32_t> targets;  // [rows, context], each in [0, vocab) or kNoTarget; empty for Purpose::kSample
  int64_t rows = 0;                  // 0 ... GptOptions::batch
  double gradient_scale = 1;         // backward computes the gradient of gradient_scale times the sum of the tokens' losses
  device::Array loss_scale = {};     // fp32 [1], a further factor that the device knows (fp16's scale); empty: 1
  Purpose purpose = Purpose::kTrain;
};

}  // namespace zeroshard::model
