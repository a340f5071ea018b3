// What ranks of a job tell each other of their devices before they compute: that no two are on one GPU, which would be slow, or too small,
// without anybody being told, and that all compute by the same libraries, without which their bits differ.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckOwnDevice(store, {.identity = uuid, .rank = 0, .world_size = 2}));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/comm/store.h"

namespace zeroshard::tools {

struct OwnDevice {
  std::string identity = {};   // of this rank's device (IdentityOf); empty: ranks may share it
  std::string libraries = {};  // LibrariesOf
  int rank = 0;
  int world_size = 1;
  absl::Duration timeout = absl::Minutes(5);
};

// Collective over the job's ranks, all with libraries or all without. Errors: kInvalidArgument two ranks have one device, on every
// rank: both ranks, the host and the UUID; or other libraries (device::CheckSameLibraries); kDeadlineExceeded; the store's.
absl::Status CheckOwnDevice(comm::Store& store, const OwnDevice& own);

}  // namespace zeroshard::tools
