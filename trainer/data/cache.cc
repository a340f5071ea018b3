#include "zeroshard/trainer/data/cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/text_hash.h"

namespace zeroshard::trainer {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> CacheHome() {
  const char* configured = std::getenv("XDG_CACHE_HOME");
  if (configured != nullptr && configured[0] == '/')
    return std::string(configured);  // the specification ignores relative ones
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return absl::StrCat(home, "/.cache");
  const passwd* user = getpwuid(geteuid());
  if (user != nullptr && user->pw_dir != nullptr && user->pw_dir[0] == '/') return absl::StrCat(user->pw_dir, "/.cache");
  return absl::FailedPreconditionError("no folder to keep prepared data in: set XDG_CACHE_HOME or HOME");
}

absl::Status Errno(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " '", path, "'"));
}

}  // namespace

absl::StatusOr<std::string> CacheFolder() {
  ZS_ASSIGN_OR_RETURN(const std::string home, CacheHome());
  std::error_code error;
  fs::create_directories(home, error);
  const std::string folder = home + "/zeroshard";
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot make the cache folder '", folder, "' (XDG_CACHE_HOME names another place)"));
  }
  struct stat facts = {};
  if (stat(folder.c_str(), &facts) != 0) return Errno("look at the cache folder", folder);
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("the cache folder '", folder,
                                                      "' is not a folder of yours alone: remove it, ",
                                                      "or have XDG_CACHE_HOME name another place"));
  }
  return folder;
}

absl::StatusOr<std::string> Cached(const std::string& folder, const std::string& name,
                                   absl::FunctionRef<absl::Status(const std::string&)> make) {
  const std::string path = folder + "/" + name;
  if (access(path.c_str(), R_OK) == 0) return path;
  const std::string lock_path = folder + "/lock";
  const int lock = open(lock_path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock < 0) return Errno("write", lock_path);
  auto unlock = absl::MakeCleanup([lock] { close(lock); });
  while (flock(lock, LOCK_EX) != 0) {
    if (errno != EINTR) return Errno("lock", lock_path);
  }
  if (access(path.c_str(), R_OK) == 0) return path;
  // One name for all: what a killed process has left is written over by the next.
  const std::string partial = path + ".partial";
  absl::Status made = make(partial);
  if (made.ok() && rename(partial.c_str(), path.c_str()) != 0) made = Errno("rename", partial);
  if (!made.ok()) {
    unlink(partial.c_str());
    return made;
  }
  return path;
}

absl::StatusOr<std::string> CacheKey(const std::string& path, const std::string& how) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return Errno("read", path);
  std::error_code error;
  const std::string canonical = fs::canonical(path, error).string();
  return absl::StrFormat("%016x", device::TextHash(absl::StrCat(canonical, "|", facts.st_size, "|", facts.st_mtim.tv_sec,
                                                                ".", facts.st_mtim.tv_nsec, "|", how)));
}

}  // namespace zeroshard::trainer
