#include "zeroshard/comm/rendezvous/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/rendezvous/job_token.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/comm/store_file_access.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

absl::Status MakeFoldersFor(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return FileError("rendezvous: make the folder", folder, errno);
  }
  // The last one is ours alone, whoever made it.
  return MakePrivateFolder(path.substr(0, path.rfind('/')));
}

absl::Status Unbelievable(const std::string& path, const char* why, const char* remedy) {
  return absl::InvalidArgumentError(absl::StrCat("rendezvous: the token file ", path, " ", why, "; ", remedy));
}

}  // namespace

absl::StatusOr<TokenFile> TokenFile::Leave(const std::string& path, std::string_view token) {
  ZS_RETURN_IF_ERROR(MakeFoldersFor(path));
  // Whole, under its own name, at once: a reader never sees half of it.
  const std::string fresh = absl::StrCat(path, ".", RandomName());
  Socket file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FileError("rendezvous: make the token file", fresh, errno);
  const bool written = write(file.get(), token.data(), token.size()) == static_cast<ssize_t>(token.size());
  if (written && rename(fresh.c_str(), path.c_str()) == 0) return TokenFile(path);
  const int error = errno;
  unlink(fresh.c_str());
  return FileError("rendezvous: write the token file", path, error);
}

void TokenFile::Remove() {
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

absl::StatusOr<std::optional<std::string>> ReadTokenFile(const std::string& path) {
  Socket file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::optional<std::string>();
  if (!file) return FileError("rendezvous: open the token file", path, errno);
  struct stat found;
  if (fstat(file.get(), &found) != 0) return FileError("rendezvous: look at the token file", path, errno);
  if (!S_ISREG(found.st_mode)) return Unbelievable(path, "is no plain file", "name one");
  if (found.st_uid != geteuid()) return Unbelievable(path, "is another user's", "make one of your own");
  if ((found.st_mode & 077) != 0) return Unbelievable(path, "is open to others", "chmod 600 it");
  std::array<char, kMostTokenBytes + 64> bytes;
  const ssize_t got = read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return FileError("rendezvous: read the token file", path, errno);
  const std::string token(absl::StripAsciiWhitespace(absl::string_view(bytes.data(), static_cast<size_t>(got))));
  const absl::Status good = CheckJobToken(token);
  if (good.ok()) return std::optional<std::string>(token);
  return absl::InvalidArgumentError(absl::StrCat(std::string(good.message()), " (in ", path, ")"));
}

absl::StatusOr<std::string> TokenPath(const LaunchEnvironment& launch, EnvironmentLookup lookup, int parent,
                                      std::string_view service) {
  const std::string root = UserFolder(lookup, launch.single_host());
  if (root.empty()) {
    return absl::InvalidArgumentError(
        "rendezvous: neither XDG_RUNTIME_DIR, XDG_CACHE_HOME nor HOME names a folder for the job's token; give "
        "--token_file=PATH, a "
        "file of mode 600 with the same 16 or more random characters on every host");
  }
  // torchrun calls a job that nobody named "none".
  const bool named = !launch.job_id.empty() && launch.job_id != "none";
  std::string job = named ? launch.job_id : launch.single_host() ? absl::StrCat("parent-", parent) : "job";
  absl::StrAppend(&job, "-", std::string(service));
  constexpr size_t kMostNameBytes = 80;  // thrice that in the file's name, at the most
  return absl::StrCat(root, "/zeroshard/jobs/", FileNameOf(job.substr(0, kMostNameBytes)));
}

}  // namespace zeroshard::comm
