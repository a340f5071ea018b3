// The communicators of one engine: who shards with whom, and who replicates what.
//
// Hybrid sharding (EngineOptions::shard_size, S of N ranks): a **shard group**, S consecutive ranks, holds the state once; the N / S
// ranks that hold the same part of it are **replicas**. S = 2 of N = 6:
//   shard groups   0 1 | 2 3 | 4 5
//   replicas       0 2 4 | 1 3 5
// Without, all ranks are one shard group. MiCS: Zhang et al., "MiCS: Near-linear Scaling for Training Gigantic Model on Public Cloud".
//
// What is gathered goes within the shard group. Gradients are reduced within it, then across replicas; norms and what ranks settle
// between steps go over all ranks. All of them fail together (comm::Communicator::Split), so that one's status is that of all.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto ranks, RankGroups::Create(communicator, options));
//   ranks->shard().AllGather(...);
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero {

class RankGroups {
 public:
  // Collective. `all` outlives it; `options` go with that many ranks (CheckWorld). Errors: the communicator's.
  static absl::StatusOr<std::unique_ptr<RankGroups>> Create(comm::Communicator& all, const EngineOptions& options);

  comm::Communicator& all() const { return *all_; }
  // Those among whom a section is split; this rank's part is Section::Owned(shard().rank()).
  comm::Communicator& shard() const { return part_ == nullptr ? *all_ : *part_; }
  // Those that hold the same part as this rank, where they are neither it alone nor all ranks; else null.
  comm::Communicator* replicas() const { return replicas_.get(); }
  // Collective; waits for all that was issued to any of them. Errors: the communicators'.
  absl::Status Barrier(std::string_view label) const;
  // Whether what this rank holds counts where all ranks' are added: once, not once for each replica.
  bool counts() const { return all_->rank() < shard().world_size(); }

 private:
  explicit RankGroups(comm::Communicator& all) : all_(&all) {}

  comm::Communicator* all_;
  std::unique_ptr<comm::Communicator> part_;
  std::unique_ptr<comm::Communicator> replicas_;
};

}  // namespace zeroshard::zero
