// Who opens a store: this process's place in its job, and how the tcp store is to be reached.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace zeroshard::comm {

// Something that all ranks must have been given alike: {"--backend", "gloo"}.
struct StoreTerm {
  std::string name;
  std::string value;
};

struct StoreMember {
  int rank = 0;
  int world_size = 1;
  // For the ranks to come together; each later call has its own.
  absl::Duration timeout = absl::Seconds(60);

  // The rest is for the tcp store.
  std::vector<StoreTerm> terms = {};  // ranks that differ from rank 0 in one are told so, and rank 0 too
  bool single_host = false;           // all ranks are known to be on this host
  std::string bind = {};              // rank 0: where to listen (network_address.h); empty: no wider than the job needs
  int listener = -1;                  // rank 0: a socket that listens already, and is taken over
  std::string token = {};             // the job's token (rendezvous/job_token.h); empty: it travels by token_path
  std::string token_path = {};        // a file that rank 0 makes, and the others read (rendezvous/token_file.h)
};

}  // namespace zeroshard::comm
