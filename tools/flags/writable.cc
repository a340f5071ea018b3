#include "zeroshard/tools/flags/writable.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace zeroshard::tools {

absl::Status CheckWritable(const std::string& flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const int descriptor = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write --", flag, "=", path));
  close(descriptor);
  return absl::OkStatus();
}

}  // namespace zeroshard::tools
