// The folder in which ranks make their files of offloaded state, looked at before any rank starts.
//
// Example:
//   ZS_RETURN_IF_ERROR(CheckStateFolder("/nvme"));
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace zeroshard::zero {

// Makes nothing. Errors: kInvalidArgument, naming the folder, if it is not there, is no folder, or may not be written to.
absl::Status CheckStateFolder(const std::string& folder);

// kInvalidArgument: `what` is wrong with the folder, and the remedy.
absl::Status StateFolderError(const std::string& folder, std::string_view what);

}  // namespace zeroshard::zero
