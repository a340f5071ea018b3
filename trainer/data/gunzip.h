// Unpacks a gzip file (dictzip's .dz too).
//
// Example:
//   ZS_RETURN_IF_ERROR(Gunzip("/usr/share/dictd/gcide.dict.dz", partial));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::trainer {

// Whether the file begins as gzip files do. Errors: as InputFile::Open.
absl::StatusOr<bool> IsGzip(const std::string& path);

// Errors: kDataLoss for a damaged or cut file; as OutputFile.
absl::Status Gunzip(const std::string& packed_path, const std::string& to_path);

}  // namespace zeroshard::trainer
