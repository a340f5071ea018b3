#include "zeroshard/tools/launch/own_device.h"

#include <unistd.h>

#include <map>

#include "absl/strings/str_cat.h"
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
  if (own.identity.empty() || own.world_size == 1) return absl::OkStatus();
  const auto key = [](int rank) { return absl::StrCat("own_device/", rank); };
  ZS_RETURN_IF_ERROR(store.Set(key(own.rank), absl::StrCat("host ", HostName(), ", ", own.identity)));
  std::map<std::string, int> first;  // rank of each
  for (int r = 0; r < own.world_size; ++r) {
    ZS_ASSIGN_OR_RETURN(const std::string device, store.Get(key(r), own.timeout));
    const auto [other, is_first] = first.emplace(device, r);
    if (is_first) continue;
    return absl::InvalidArgumentError(absl::StrCat("ranks ", other->second, " and ", r, " are on one GPU (", device,
                                                   "): start one rank for each GPU, or take --share_gpu"));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::tools
