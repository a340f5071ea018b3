// A fresh folder that nobody else can look into, gone with all it holds when its owner is dropped.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(PrivateFolder folder, PrivateFolder::Create("zeroshard"));
//   folder.path();                                 // "/tmp/zeroshard-x8Tq1c"
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace zeroshard::tools {

class PrivateFolder {
 public:
  // In $TMPDIR, else /tmp; mode 0700. Errors: the system's, with the path.
  static absl::StatusOr<PrivateFolder> Create(const std::string& name);
  ~PrivateFolder();
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  PrivateFolder& operator=(PrivateFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace zeroshard::tools
