// Which libraries compute and carry for a rank, and that all ranks have the same: others give other bits, or do not understand each other.
//
// As text, one after the other: "NCCL 2.28.9, cuBLASLt 13.0.2, no cuDNN".
//
// Example:
//   const std::string mine = absl::StrCat(LibraryText("NCCL", 22809), ", ", LibraryText("cuDNN", 0));
//   ZS_RETURN_IF_ERROR(CheckSameLibraries(/*rank=*/0, theirs, /*other=*/1, mine));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace zeroshard::device {

// "cuDNN 9.14.0" of 91400, as NVIDIA's libraries number themselves; "no cuDNN" of 0.
std::string LibraryText(std::string_view name, int64_t version);

// Errors: kInvalidArgument two ranks' texts differ: both ranks, what each has of the first library that differs, and the remedy.
absl::Status CheckSameLibraries(int rank, std::string_view has, int other, std::string_view other_has);

}  // namespace zeroshard::device
