#include "zeroshard/comm/store_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "zeroshard/comm/store_counter.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// Keys lie beside the marks rank.N and the lock: none of those has this prefix.
constexpr char kKeyPrefix[] = "key.";
constexpr absl::Duration kLockTimeout = absl::Seconds(20);

// The folder of all runs for the path that the user gave.
absl::StatusOr<std::string> RunsFolder(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        "file store: an empty path, or one with a zero byte; name a folder that all ranks share");
  }
  struct stat found;
  if (stat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) return absl::StrCat(path, "/zeroshard");
    if (S_ISREG(found.st_mode)) return absl::StrCat(path, ".zeroshard");
    return absl::InvalidArgumentError(absl::StrCat("file store: ", path, " is neither a folder nor a file"));
  }
  if (errno != ENOENT) return FileError("file store: look at", path, errno);
  ZS_RETURN_IF_ERROR(MakePrivateFolder(path));
  return absl::StrCat(path, "/zeroshard");
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(std::string_view path, const StoreMember& member) {
  if (member.world_size < 1 || member.rank < 0 || member.rank >= member.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("file store: rank ", member.rank, " of ", member.world_size, " ranks: ranks count from 0"));
  }
  ZS_ASSIGN_OR_RETURN(const std::string folder, RunsFolder(std::string(path)));
  ZS_RETURN_IF_ERROR(MakePrivateFolder(folder));
  ZS_ASSIGN_OR_RETURN(Rendezvous run, MeetInFolder(folder, member));
  return std::unique_ptr<FileStore>(new FileStore(std::string(path), member, std::move(run)));
}

FileStore::~FileStore() {
  const absl::StatusOr<int64_t> left = Add("left", 1);
  run_.leader_lock.RemoveAndRelease();
  if (!left.ok() || *left < member_.world_size) return;
  RemoveFolder(run_.run_folder);
  // Gone only where no other run has anything in it.
  rmdir(run_.run_folder.substr(0, run_.run_folder.rfind('/')).c_str());
}

std::string FileStore::Describe() const { return absl::StrCat("the file store at ", path_); }

absl::Status FileStore::DoSet(std::string_view key, std::string_view value) {
  return WriteWhole(run_.run_folder, absl::StrCat(kKeyPrefix, FileNameOf(key)), value);
}

absl::StatusOr<std::optional<std::string>> FileStore::DoTryGet(std::string_view key) {
  ZS_ASSIGN_OR_RETURN(std::optional<std::string> value,
                      ReadWhole(absl::StrCat(run_.run_folder, "/", kKeyPrefix, FileNameOf(key)), kMaxStoreValueBytes));
  if (!value.has_value() && access(run_.run_folder.c_str(), X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat(Describe(), ": the folder of this run is gone: ", run_.run_folder));
  }
  return value;
}

absl::StatusOr<int64_t> FileStore::DoAdd(std::string_view key, int64_t delta) {
  ZS_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(absl::StrCat(run_.run_folder, "/lock"), kLockTimeout));
  ZS_ASSIGN_OR_RETURN(const std::optional<std::string> value, DoTryGet(key));
  ZS_ASSIGN_OR_RETURN(const int64_t sum, CountUp(value, delta));
  ZS_RETURN_IF_ERROR(DoSet(key, absl::StrCat(sum)));
  return sum;
}

void FileStore::DoPause(int round, absl::Duration limit) {
  absl::SleepFor(std::min(limit, absl::Milliseconds(1 << std::min(round, 4))));
  // Errors show in the next look at the key.
  ListFolder(run_.run_folder).IgnoreError();
}

}  // namespace zeroshard::comm
