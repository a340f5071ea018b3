#include "zeroshard/zero/offload/state_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace zeroshard::zero {

absl::Status StateFolderError(const std::string& folder, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("offload folder ", folder, ": ", std::string(what),
                                                 "; name a folder on a local disk that this user may write to"));
}

absl::Status CheckStateFolder(const std::string& folder) {
  if (folder.empty()) {
    return absl::InvalidArgumentError(
        "offload to a file needs a folder: name one on a local disk (offload_folder, nvme_path)");
  }
  struct stat what = {};
  if (stat(folder.c_str(), &what) != 0) return StateFolderError(folder, std::strerror(errno));
  if (!S_ISDIR(what.st_mode)) return StateFolderError(folder, "it is no folder");
  if (access(folder.c_str(), W_OK | X_OK) != 0) return StateFolderError(folder, std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace zeroshard::zero
