#include "zeroshard/zero/rank_groups.h"

#include "zeroshard/device/status_macros.h"

namespace zeroshard::zero {

absl::StatusOr<std::unique_ptr<RankGroups>> RankGroups::Create(comm::Communicator& all, const EngineOptions& options) {
  std::unique_ptr<RankGroups> ranks(new RankGroups(all));
  const int size = ShardSize(options, all.world_size());
  if (size == all.world_size()) return ranks;
  ZS_ASSIGN_OR_RETURN(ranks->part_, all.Split(all.rank() / size, all.rank(), "shard group"));
  if (size > 1) {
    ZS_ASSIGN_OR_RETURN(ranks->replicas_, all.Split(all.rank() % size, all.rank(), "replicas"));
  }
  return ranks;
}

absl::Status RankGroups::Barrier(std::string_view label) const {
  const comm::CallOptions call{.wait_at_once = true, .traffic = comm::Traffic::kControl, .label = label};
  if (part_ != nullptr) ZS_RETURN_IF_ERROR(part_->Barrier(call).Wait());
  if (replicas_ != nullptr) ZS_RETURN_IF_ERROR(replicas_->Barrier(call).Wait());
  return all_->Barrier(call).Wait();
}

}  // namespace zeroshard::zero
