// Who opens a store: this process's place in its job.
#pragma once

#include "absl/time/time.h"

namespace zeroshard::comm {

struct StoreMember {
  int rank = 0;
  int world_size = 1;
  // For the ranks to come together; each later call has its own.
  absl::Duration timeout = absl::Seconds(60);
};

}  // namespace zeroshard::comm
