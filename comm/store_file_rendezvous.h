// How the ranks that share a folder find the folder of this run, among what earlier runs left there.
//
// Note: the rendezvous. Each rank but 0 writes ask.RANK.NAME, NAME being random and its own, and waits for answer.NAME. Rank 0
// holds leader.lock, makes run.NAME, answers each ask with the run's name (or with why it refuses), and is done when each rank
// has left its mark rank.RANK in the run's folder. An ask that a dead process left is answered too, and nobody comes. A mark that
// is there already means two processes of one rank. An ask that another run's rank 0 swept away is written again.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Rendezvous run, MeetInFolder("/shared/job7/zeroshard", {.rank = 1, .world_size = 4}));
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "zeroshard/comm/store_file_access.h"
#include "zeroshard/comm/store_member.h"

namespace zeroshard::comm {

struct Rendezvous {
  std::string run_folder;
  FileLock leader_lock;  // On rank 0: keeps other jobs off the folder.
};

// Collective. `folder` is there and private (MakePrivateFolder). Errors: see FileStore::Open.
absl::StatusOr<Rendezvous> MeetInFolder(const std::string& folder, const StoreMember& member);

}  // namespace zeroshard::comm
