#include "zeroshard/model/gpt_activations.h"

#include <algorithm>

#include "zeroshard/device/round_up.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::model {
namespace {

using device::Array;
using device::DType;

// Hands out arrays of one allocation, each on a line of its own. Without memory it only counts.
class Arena {
 public:
  explicit Arena(Array bytes = {}) : bytes_(bytes) {}

  Array Take(int64_t elements, DType dtype) {
    const int64_t size = elements * device::SizeOf(dtype);
    const Array taken = bytes_.Slice(used_, size).As(dtype);
    used_ += (size + device::kAlignmentBytes - 1) / device::kAlignmentBytes * device::kAlignmentBytes;
    return taken;
  }
  Array Floats(int64_t elements) { return Take(elements, DType::kFloat32); }

  int64_t used() const { return used_; }
  // Goes back to, or on to, a place: what follows shares memory with what was there.
  void MoveTo(int64_t used) { used_ = used; }

 private:
  const Array bytes_;
  int64_t used_ = 0;
};

NormActivations TakeNorm(Arena& arena, int64_t rows, int64_t width, DType dtype) {
  return {.normalized = arena.Take(rows * width, dtype), .inverse_deviation = arena.Floats(rows)};
}

BlockActivations TakeBlock(Arena& arena, const GptOptions& options, int64_t rows) {
  const int64_t width = options.width;
  BlockActivations block;
  block.norm_1 = TakeNorm(arena, rows, width, options.dtype);
  block.qkv = arena.Take(rows * 3 * width, options.dtype);
  block.log_sum_exp = arena.Floats(rows * options.heads);
  block.attention = arena.Take(rows * width, options.dtype);
  block.norm_2 = TakeNorm(arena, rows, width, options.dtype);
  block.fc = arena.Take(rows * 4 * width, options.dtype);
  return block;
}

void TakeLoss(Arena& arena, const GptOptions& options, device::LossBlocks blocks, int64_t rows, GptActivations& a) {
  const int64_t column_blocks = (options.vocab + blocks.columns - 1) / blocks.columns;
  a.loss_rows = {.targets = a.targets,
                 .maximum = arena.Floats(rows),
                 .sum = arena.Take(rows, DType::kFloat64),
                 .target_logit = arena.Floats(rows)};
  a.block_maximum = arena.Floats(column_blocks * std::min(rows, blocks.rows));
  a.loss = arena.Take(1, DType::kFloat64);
}

// What is never wanted at the same time.
void TakeShared(Arena& arena, const GptOptions& options, device::LossBlocks blocks, int64_t rows, int64_t workspace_bytes,
                GptActivations& a) {
  const int64_t width = options.width, start = arena.used();
  a.gelu = arena.Take(rows * 4 * width, options.dtype);
  a.d_fc = a.gelu;
  a.d_attention = a.gelu.Slice(0, rows * width);
  a.d_qkv = a.gelu.Slice(rows * width, rows * 3 * width);
  a.workspace = arena.Take(workspace_bytes, DType::kUint8);
  const int64_t block_end = arena.used();
  arena.MoveTo(start);
  const int64_t loss_rows = std::min(rows, blocks.rows), vocab = device::RoundUp(options.vocab, blocks.stride_of);
  a.exponentials = arena.Take(loss_rows * vocab, options.dtype);
  if (options.dtype != DType::kFloat32) a.logits = arena.Floats(loss_rows * std::min(vocab, blocks.columns));
  arena.MoveTo(std::max(block_end, arena.used()));
}

GptActivations LayOut(const GptOptions& options, device::LossBlocks blocks, int64_t workspace_bytes, Arena& arena) {
  const int64_t rows = options.batch * options.context, width = options.width;
  GptActivations a;
  a.inputs = arena.Take(rows, DType::kInt32);
  a.targets = arena.Take(rows, DType::kInt32);
  a.residual = arena.Floats(rows * width);
  a.d_residual = arena.Floats(rows * width);
  a.rounded_d_residual = options.dtype == DType::kFloat32 ? a.d_residual : arena.Take(rows * width, options.dtype);
  a.y = arena.Take(rows * width, options.dtype);
  a.d_y = arena.Floats(rows * width);
  for (int64_t block = 0; block < GroupsOf(options).size(); ++block) a.blocks.push_back(TakeBlock(arena, options, rows));
  a.head_norm = TakeNorm(arena, rows, width, options.dtype);
  const int64_t partials = device::PartialRows(rows) * width;
  a.partials = {.weight = arena.Floats(partials), .bias = arena.Floats(partials), .d_x = arena.Floats(partials)};
  a.gelu_partials = arena.Floats(4 * partials);
  TakeLoss(arena, options, blocks, rows, a);
  TakeShared(arena, options, blocks, rows, workspace_bytes, a);
  return a;
}

}  // namespace

int64_t GptActivations::Bytes(const GptOptions& options, device::LossBlocks blocks, int64_t attention_workspace_bytes) {
  Arena counting;
  LayOut(options, blocks, attention_workspace_bytes, counting);
  return counting.used();
}

absl::StatusOr<GptActivations> GptActivations::Allocate(device::Device& device, const GptOptions& options,
                                                        int64_t attention_workspace_bytes) {
  const device::LossBlocks blocks = device.transformer().loss_blocks(options.dtype);
  const int64_t bytes = Bytes(options, blocks, attention_workspace_bytes);
  ZS_ASSIGN_OR_RETURN(device::Buffer memory, device.Allocate(bytes, device::Use::kActivations, "the model's activations"));
  Arena arena(memory.array(DType::kUint8));
  GptActivations activations = LayOut(options, blocks, attention_workspace_bytes, arena);
  activations.memory = std::move(memory);
  return activations;
}

}  // namespace zeroshard::model
