#include "zeroshard/tools/launch/private_folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroshard::tools {

absl::StatusOr<PrivateFolder> PrivateFolder::Create(const std::string& name) {
  const char* parent = getenv("TMPDIR");
  std::string path = absl::StrCat(parent != nullptr && parent[0] == '/' ? parent : "/tmp", "/", name, "-XXXXXX");
  if (mkdtemp(path.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the folder '", path, "'"));
  return PrivateFolder(path);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace zeroshard::tools
