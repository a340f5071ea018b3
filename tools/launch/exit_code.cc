#include "zeroshard/tools/launch/exit_code.h"

namespace zeroshard::tools {

int ExitCodeOf(const absl::Status& status, Phase phase) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return kExitBug;
    case absl::StatusCode::kResourceExhausted:
      return kExitMemory;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return kExitPeer;
    default:
      break;
  }
  if (phase == Phase::kStarting) return kExitInput;
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return kExitPeer;
    case absl::StatusCode::kOutOfRange:
      return phase == Phase::kRunning ? kExitTraining : kExitInput;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
      return phase == Phase::kRunning ? kExitFile : kExitInput;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnauthenticated:
      return kExitInput;
    default:
      return kExitBug;
  }
}

}  // namespace zeroshard::tools
