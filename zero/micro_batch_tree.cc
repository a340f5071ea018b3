#include "zeroshard/zero/micro_batch_tree.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zeroshard::zero {

int TreeBuffers(const EngineOptions& options) {
  if (!options.world_invariant) return 0;
  const bool fp32 = options.gradient_dtype.value_or(options.dtype) == device::DType::kFloat32;
  if (options.accumulation == 1 && fp32) return 0;
  return std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(options.accumulation))) - 1);
}

absl::Status CheckTree(const EngineOptions& options, int world_size) {
  if (!options.world_invariant || options.accumulation == 1) return absl::OkStatus();
  if (std::has_single_bit(static_cast<unsigned>(world_size))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("world_invariant on ", world_size, " ranks with accumulation ", options.accumulation, ": sums over ",
                   world_size, " ranks are no subtrees of a sum over more; use a power of two of ranks, or accumulation 1"));
}

MicroBatchTree::MicroBatchTree(std::vector<device::Array> buffers, int micro_batches)
    : buffers_(std::move(buffers)), level_(std::bit_width(static_cast<unsigned>(micro_batches)), -1) {
  carries_.reserve(level_.size());
}

int MicroBatchTree::FreeBuffer() const {
  int buffer = 0;
  while (std::find(level_.begin(), level_.end(), buffer) != level_.end()) ++buffer;
  return buffer;
}

MicroBatchTree::Landing MicroBatchTree::Next() {
  carries_.clear();
  if (level_[0] < 0) {
    level_[0] = FreeBuffer();
    return {.buffer = buffers_[level_[0]], .accumulate = false, .carries = {}};
  }
  const device::Array& first = buffers_[level_[0]];
  int sum = std::exchange(level_[0], -1);
  size_t level = 1;
  for (; level_[level] >= 0; ++level) {
    sum = std::exchange(level_[level], -1);
    carries_.push_back(buffers_[sum]);
  }
  level_[level] = sum;
  return {.buffer = first, .accumulate = true, .carries = carries_};
}

void MicroBatchTree::Finish(device::Stream& stream) {
  int sum = -1;
  size_t last = 0;
  for (size_t level = 0; level < level_.size(); ++level) {
    if (level_[level] < 0) continue;
    const int above = std::exchange(level_[level], -1);
    if (sum >= 0 && !buffers_[sum].empty()) {
      stream.device().elementwise().Accumulate(stream, buffers_[sum], buffers_[above]);
    }
    sum = above;
    last = level;
  }
  if (sum < 0) return;
  level_[last] = sum;
  sum_ = sum;
}

void MicroBatchTree::Clear() {
  std::fill(level_.begin(), level_.end(), -1);
  sum_ = 0;
}

}  // namespace zeroshard::zero
