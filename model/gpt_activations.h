// The memory of one micro-batch of a Gpt: what forward keeps for backward, and the scratch of both, in one allocation made at start.
//
// rows = batch * context tokens. Of a block, backward finds the normalised inputs of its two norms, queries, keys and values, the
// attention's output, and the inputs of its GELU: 10 * rows * width elements; the rest is computed again. Scratch that is never
// wanted at the same time shares its place. What is not said to be of another type is of options.dtype. With activation checkpointing there are activations for one group's blocks, which the
// groups take in turn (checkpoint_groups.h).
//
// Example:
//   ZS_ASSIGN_OR_RETURN(GptActivations activations, GptActivations::Allocate(device, options, attention->workspace_bytes()));
//   activations.blocks[2].qkv;  // [rows, 3 * width]
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gpt_options.h"

namespace zeroshard::model {

struct NormActivations {
  device::Array normalized;         // [rows, width]
  device::Array inverse_deviation;  // [rows] fp32
};

struct BlockActivations {
  NormActivations norm_1;
  device::Array qkv;          // [rows, 3 * width]
  device::Array log_sum_exp;  // [batch, heads, context] fp32
  device::Array attention;    // [rows, width]
  NormActivations norm_2;
  device::Array fc;  // [rows, 4 * width], before GELU
};

struct GptActivations {
  // Errors: kResourceExhausted.
  static absl::StatusOr<GptActivations> Allocate(device::Device& device, const GptOptions& options,
                                                 int64_t attention_workspace_bytes);

  // Bytes that Allocate takes, of a device that does the loss by `blocks`.
  static int64_t Bytes(const GptOptions& options, device::LossBlocks blocks, int64_t attention_workspace_bytes);

  device::Array inputs;   // int32 [rows]
  device::Array targets;  // int32 [rows]

  // Where a norm's backward leaves rounded_d_residual; nowhere, where nothing is rounded.
  device::Array rounding() const { return rounded_d_residual == d_residual ? device::Array() : rounded_d_residual; }

  device::Array residual;                // [rows, width] fp32: the stream that blocks add to
  device::Array d_residual;              // [rows, width] fp32
  device::Array rounded_d_residual;      // [rows, width]: what products take of it; the same array in fp32
  device::Array y;                       // [rows, width]: a norm's output
  device::Array d_y;                     // [rows, width] fp32
  std::vector<BlockActivations> blocks;  // [CheckpointGroups::size()]
  NormActivations head_norm;

  // Left by the last norm's backward: partials.d_x is the sum of d_residual over rows, which the next unit's bias wants.
  device::LayerNormPartials partials;
  device::Array gelu_partials;  // [PartialRows(rows), 4 * width] fp32

  // Share one place with each other, and with `exponentials`.
  device::Array gelu;         // [rows, 4 * width], forward
  device::Array d_fc;         // [rows, 4 * width], backward, first half of a block
  device::Array d_attention;  // [rows, width], backward, second half
  device::Array d_qkv;        // [rows, 3 * width]
  device::Array workspace;    // of the attention

  device::LossRows loss_rows;  // each [rows]
  // Of the LossBlocks::rows that are under way.
  device::Array block_maximum;  // [blocks of columns, rows] fp32
  device::Array exponentials;   // [rows, vocab and what pads it]: block of columns after block
  device::Array logits;         // [rows, columns] fp32: of one block; empty where exponentials take their place
  device::Array loss;           // fp64 [1]

  device::Buffer memory;
};

}  // namespace zeroshard::model
