#include "zeroshard/device/cuda/attention_makers.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace zeroshard::device::cuda {
namespace {

constexpr char kBegin[] = "attention [";

}  // namespace

std::string AttentionMakers::Text() const {
  std::string text;
  for (const auto& [attention, maker] : makers_) absl::StrAppend(&text, attention, "\t", maker, "\n");
  return text;
}

absl::StatusOr<std::string> AttentionMakers::Check(std::string_view text) const {
  std::string rest;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, kBegin)) {
      absl::StrAppend(&rest, line, "\n");
      continue;
    }
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    const auto here = makers_.find(parts[0]);
    if (here == makers_.end() || (parts.size() == 2 && parts[1] == here->second)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(parts[0], " was done by ", parts.back(), ", and on this rank is by ", here->second,
                     ", which give other bits: the log says why cuDNN is not taken where it is not; all ranks need the "
                     "whole of it (LD_LIBRARY_PATH)"));
  }
  return rest;
}

}  // namespace zeroshard::device::cuda
