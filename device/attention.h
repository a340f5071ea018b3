// Causal multi-head attention, planned once at start and run many times, forward and backward.
//
// Shapes, with rows = batch * context and width = heads * head_width:
//   qkv, d_qkv      [rows, 3 * width]: queries, keys, values of a row side by side, each [heads, head_width]
//   out, d_out      [rows, width]
//   log_sum_exp     [batch, heads, context] fp32: what backward needs of the softmax
// The first four are of the plan's dtype: fp32, bf16 or fp16. Scores and the softmax are taken in fp32; in bf16
// probabilities and the scores' gradients are rounded before they are multiplied again. A position sees itself and what is
// before it; scores are scaled by 1 / sqrt(head_width). The upper half of the scores is neither stored nor, but for the
// diagonal blocks, computed.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto attention, device.PlanAttention({.batch = 4, .heads = 6, .context = 256, .head_width = 64}));
//   attention->Forward(stream, qkv, out, log_sum_exp, workspace);
#pragma once

#include <cstdint>

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

struct AttentionSpec {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t context = 0;
  int64_t head_width = 0;
  DType dtype = DType::kFloat32;  // of qkv, out, d_out, d_qkv
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual const AttentionSpec& spec() const = 0;
  // Bytes of scratch that Forward and Backward want; its contents need not survive between calls.
  virtual int64_t workspace_bytes() const = 0;
  virtual void Forward(Stream& stream, In qkv, Out out, Out log_sum_exp, InOut workspace) = 0;
  virtual void Backward(Stream& stream, In qkv, In out, In log_sum_exp, In d_out, Out d_qkv, InOut workspace) = 0;
};

}  // namespace zeroshard::device
