// Waiting for what a peer puts into the store, for as long as that is of use.
#pragma once

#include <chrono>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard::backends {

// Errors: kDeadlineExceeded; what `given_up` gives once waiting is of no use any more; the store's.
inline absl::StatusOr<std::string> AwaitValue(comm::Store& store, const std::string& key, comm::Deadline deadline,
                                              absl::FunctionRef<absl::Status()> given_up) {
  constexpr absl::Duration kLook = absl::Milliseconds(100);
  while (true) {
    absl::StatusOr<std::string> value = store.Get(key, kLook);
    if (value.ok() || !absl::IsDeadlineExceeded(value.status())) return value;
    if (absl::Status status = given_up(); !status.ok()) return status;
    if (std::chrono::steady_clock::now() >= deadline) return value;
  }
}

}  // namespace zeroshard::backends
