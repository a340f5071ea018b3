#include "zeroshard/zero/model_check.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/gather_plan.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/offload/parameter_tier.h"

namespace zeroshard::zero {
namespace {

// What is asked of one file system.
struct Room {
  std::string_view option;  // the first that names a folder on it
  std::string folder;
  int64_t bytes = 0;
};

void Ask(std::map<dev_t, Room>& rooms, std::string_view option, const OffloadOptions& offload, int64_t bytes) {
  struct stat what = {};
  if (bytes == 0 || stat(offload.folder.c_str(), &what) != 0) return;
  Room& room = rooms.try_emplace(what.st_dev, Room{option, offload.folder}).first->second;
  room.bytes += bytes;
}

absl::Status CheckRoom(const Room& room, int ranks) {
  struct statvfs disk = {};
  if (statvfs(room.folder.c_str(), &disk) != 0) return absl::OkStatus();  // The rank that makes its file there says why.
  const auto free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (room.bytes <= free) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(std::string(room.option), " is nvme in ", room.folder, ": the files of ",
                                                 ranks, ranks == 1 ? " rank" : " ranks", " take ", room.bytes, " bytes, ",
                                                 free, " are free; make room, name another folder, or offload less"));
}

absl::Status CheckRooms(const Layout& layout, const EngineOptions& options, int ranks) {
  std::map<dev_t, Room> rooms;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t parameters = ParameterFileBytes(layout, options, layout.PartOf(rank));
    Ask(rooms, "offload_optimizer", options.offload_optimizer, PredictFileBytes(layout, options, rank) - parameters);
    Ask(rooms, "offload_parameters", options.offload_parameters, parameters);
  }
  for (const auto& [device, room] : rooms) ZS_RETURN_IF_ERROR(CheckRoom(room, ranks));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModel(const std::vector<model::UnitSpec>& units, const EngineOptions& options, int world_size,
                        int ranks_here) {
  ZS_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(units, LayoutOptionsOf(options, world_size)));
  ZS_RETURN_IF_ERROR(CheckLiveParameters(layout, options));
  return CheckRooms(layout, options, ranks_here);
}

}  // namespace zeroshard::zero
