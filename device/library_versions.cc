#include "zeroshard/device/library_versions.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace zeroshard::device {
namespace {

std::vector<std::string> Items(std::string_view text) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), ", ", absl::SkipEmpty());
}

}  // namespace

std::string LibraryText(std::string_view name, int64_t version) {
  if (version == 0) return absl::StrCat("no ", std::string(name));
  return absl::StrCat(std::string(name), " ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::Status CheckSameLibraries(int rank, std::string_view has, int other, std::string_view other_has) {
  if (has == other_has) return absl::OkStatus();
  const std::vector<std::string> first = Items(has), second = Items(other_has);
  const auto item = [](const std::vector<std::string>& items, size_t i) {
    return i < items.size() ? items[i] : std::string("no such library");
  };
  size_t i = 0;
  while (i < std::min(first.size(), second.size()) && first[i] == second[i]) ++i;
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", rank, " has ", item(first, i), ", rank ", other, " has ", item(second, i),
                   ": all ranks need the same version of each library, or their bits differ; put one first in "
                   "LD_LIBRARY_PATH on every host"));
}

}  // namespace zeroshard::device
