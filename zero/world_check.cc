#include "zeroshard/zero/world_check.h"

#include <bit>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/micro_batch_tree.h"

namespace zeroshard::zero {
namespace {

absl::Status CheckShardSize(const EngineOptions& options, int world_size) {
  if (options.shard_size == 0 || world_size % options.shard_size == 0) return absl::OkStatus();
  std::vector<int> divisors;
  for (int d = 1; d <= world_size; ++d) {
    if (world_size % d == 0) divisors.push_back(d);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("shard_size is ", options.shard_size, " on ", world_size, world_size == 1 ? " rank" : " ranks",
                   "; it divides their number: ", absl::StrJoin(divisors, ", "), ", or 0 for all of them"));
}

}  // namespace

absl::Status CheckWorld(const EngineOptions& options, int world_size) {
  ZS_RETURN_IF_ERROR(CheckShardSize(options, world_size));
  ZS_RETURN_IF_ERROR(CheckTree(options, world_size));
  const int shard_size = ShardSize(options, world_size);
  if (!options.world_invariant || shard_size == world_size || std::has_single_bit(static_cast<unsigned>(shard_size))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("world_invariant with shard_size ", shard_size, " on ", world_size,
                                                 " ranks: sums within ", shard_size, " ranks are no subtrees of a sum over ",
                                                 world_size, "; take a power of two, or 0 for all ranks"));
}

}  // namespace zeroshard::zero
