// How the job's token travels where no launcher of ours hands it on: rank 0 leaves it in a file that only its user can read, and the
// others, the same user's, read it there.
//
// The file is made anew (O_EXCL, mode 0600) in a folder of mode 0700; a stale one of an earlier job is replaced, and a reader that
// took it is refused by the rendezvous, and reads again. A file that another user owns or could write is not believed.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(TokenFile file, TokenFile::Leave("/home/me/.cache/zeroshard/jobs/srun-77.0", token));    // rank 0
//   ZS_ASSIGN_OR_RETURN(std::optional<std::string> token, ReadTokenFile("/home/me/.cache/zeroshard/jobs/srun-77.0"));
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "zeroshard/comm/launch_environment.h"

namespace zeroshard::comm {

// A token file of this process's own making; gone when it is dropped.
class TokenFile {
 public:
  // Makes the folders on the way. Errors: kInvalidArgument and kUnavailable, with the path and the system's words, and the remedy.
  static absl::StatusOr<TokenFile> Leave(const std::string& path, std::string_view token);

  TokenFile() = default;
  TokenFile(TokenFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TokenFile& operator=(TokenFile&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TokenFile() { Remove(); }
  void Remove();

 private:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The token that the file holds, without white space at its ends; nothing where there is no file.
// Errors: kInvalidArgument no token; the file is no plain file, another user's, or open to others: with the path, and the remedy.
absl::StatusOr<std::optional<std::string>> ReadTokenFile(const std::string& path);

// Where rank 0 leaves the token and the others find it, the same path on every rank of the job that `launch` tells of: in
// $XDG_RUNTIME_DIR/zeroshard on one host; else in $XDG_CACHE_HOME/zeroshard or ~/.cache/zeroshard, which hosts may share. Under the
// job's id (where the launcher gives none: `parent`, the parent process's, on one host) and `service`, where the store is.
// Errors: kInvalidArgument none of these is set; --token_file is the remedy.
absl::StatusOr<std::string> TokenPath(const LaunchEnvironment& launch, EnvironmentLookup lookup, int parent,
                                      std::string_view service);

}  // namespace zeroshard::comm
