// Values: what the ranks of a job keep in rank 0: small values under names, within bounds. Not thread-safe.
//
// Example:
//   Values values;
//   ZS_RETURN_IF_ERROR(values.Set("address/1", "10.0.0.3 4711"));
//   values.Find("address/1");
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::comm {

class Values {
 public:
  // A job of a thousand ranks sets some thousand keys of some hundred bytes.
  static constexpr int64_t kMostKeys = int64_t{1} << 18;
  static constexpr int64_t kMostBytes = int64_t{1} << 28;

  // Errors: kInvalidArgument a key or a value beyond the bounds of store.h; kResourceExhausted too many, or too much, of them.
  absl::Status Set(std::string_view key, std::string_view value);
  // Errors: as Set's; kFailedPrecondition the key holds no counter.
  absl::StatusOr<int64_t> Add(std::string_view key, int64_t delta);
  // Null where there is none.
  const std::string* Find(std::string_view key) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
  int64_t bytes_ = 0;
};

}  // namespace zeroshard::comm
