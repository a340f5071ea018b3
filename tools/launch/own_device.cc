#include "zeroshard/tools/launch/own_device.h"

#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/library_versions.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::tools {
namespace {

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

absl::Status CheckOwnDevice(comm::Store& store, const OwnDevice& own) {
  if ((own.identity.empty() && own.libraries.empty()) || own.world_size == 1) return absl::OkStatus();
  const auto key = [](int rank) { return absl::StrCat("own_device/", rank); };
  const std::string place = own.identity.empty() ? "" : absl::StrCat("host ", HostName(), ", ", own.identity);
  ZS_RETURN_IF_ERROR(store.Set(key(own.rank), absl::StrCat(own.libraries, "\n", place)));
  std::map<std::string, int> first;  // rank of each
  std::string rank_zeros;
  for (int r = 0; r < own.world_size; ++r) {
    ZS_ASSIGN_OR_RETURN(const std::string told, store.Get(key(r), own.timeout));
    const std::pair<std::string, std::string> parts = absl::StrSplit(told, absl::MaxSplits('\n', 1));
    const auto& [libraries, device] = parts;
    if (r == 0) rank_zeros = libraries;
    ZS_RETURN_IF_ERROR(device::CheckSameLibraries(/*rank=*/0, rank_zeros, r, libraries));
    if (device.empty()) continue;
    const auto [other, is_first] = first.emplace(device, r);
    if (is_first) continue;
    return absl::InvalidArgumentError(absl::StrCat("ranks ", other->second, " and ", r, " are on one GPU (", device,
                                                   "): start one rank for each GPU, or take --share_gpu"));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::tools
