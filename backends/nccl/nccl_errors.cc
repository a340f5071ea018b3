#include "zeroshard/backends/nccl/nccl_errors.h"

#include "absl/strings/str_cat.h"

namespace zeroshard::backends {

absl::Status NcclStatus(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess) return absl::OkStatus();
  const char* const last = ncclGetLastError(comm);
  const std::string words = last == nullptr || *last == '\0' ? "nothing" : absl::StrCat("'", last, "'");
  const std::string message = absl::StrCat(call, ": ", ncclGetErrorString(result), "; ncclGetLastError says ", words);
  switch (result) {
    case ncclUnhandledCudaError:
    case ncclSystemError:
    case ncclRemoteError:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

std::string VersionText(int code) {
  if (code < 10000) return absl::StrCat(code / 1000, ".", code / 100 % 10, ".", code % 100);
  return absl::StrCat(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

}  // namespace zeroshard::backends
