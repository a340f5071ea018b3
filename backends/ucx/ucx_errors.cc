#include "zeroshard/backends/ucx/ucx_errors.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace zeroshard::backends {
namespace {

absl::StatusCode CodeOf(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_CANCELED:
      return absl::StatusCode::kUnavailable;
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return absl::StatusCode::kResourceExhausted;
    case UCS_ERR_BUSY:  // a port
      return absl::StatusCode::kAlreadyExists;
    case UCS_ERR_TIMED_OUT:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status FromUcx(ucs_status_t status, std::string_view doing) {
  if (status == UCS_OK) return absl::OkStatus();
  return absl::Status(CodeOf(status), absl::StrCat("UCX: ", ucs_status_string(status), " (", std::string(doing), ")"));
}

}  // namespace zeroshard::backends
