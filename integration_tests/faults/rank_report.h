// What a rank of a fault test leaves where the test sees it, whatever becomes of the rank.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace zeroshard::integration_tests {

// Of a monotonic clock that all processes of this machine share.
int64_t NowMs();
// CPU time of the calling process so far.
int64_t ProcessCpuMs();

struct RankReport {
  std::atomic<int64_t> operations{0};  // that ended well, with the right numbers
  std::atomic<int64_t> noticed_ms{0};  // when the first operation failed
  std::atomic<int64_t> noticed_cpu_ms{0};
  std::atomic<int64_t> ended_ms{0};  // when all was given back
  std::atomic<int64_t> wrong{0};     // operations that said they ended well, and gave wrong numbers
  std::atomic<int64_t> number{0};    // the test's own
  absl::StatusCode code = absl::StatusCode::kUnknown;
  char message[2048] = {};
};

}  // namespace zeroshard::integration_tests
