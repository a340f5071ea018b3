// FileStore: the store of processes that share a folder, on one host or over a network file system.
//
// Opening it is a rendezvous: rank 0 makes a fresh folder for this run and lets each rank in that asks; the other ranks ask,
// under a name made up for this process, and wait for the answer. So files that an earlier run left behind, complete or not,
// cannot be taken for this run's; rank 0 sweeps them away.
//
// PATH is a folder (made, mode 0700, where there is none; the files lie in PATH/zeroshard) or a file (they lie in
// PATH.zeroshard). Files have mode 0600 and appear whole, by rename. The last rank to close removes the run's folder.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<FileStore> store, FileStore::Open("/shared/job7", {.rank = 1, .world_size = 4}));
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/store_file_rendezvous.h"
#include "zeroshard/comm/store_member.h"

namespace zeroshard::comm {

class FileStore final : public Store {
 public:
  // Collective over the ranks of the job. On rank 0 it returns when all ranks are there, elsewhere when rank 0 has answered.
  // Errors: kInvalidArgument the path (missing parent, not a folder, another user's, not writable: each said with the path);
  // kAlreadyExists another job uses it, or two processes say that they are this rank; kDeadlineExceeded, naming the ranks that
  // did not come; kFailedPrecondition ranks that disagree on the world size; kResourceExhausted the file system is full.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(std::string_view path, const StoreMember& member);
  ~FileStore() override;

  std::string Describe() const override;

 private:
  FileStore(std::string path, const StoreMember& member, Rendezvous run)
      : path_(std::move(path)), member_(member), run_(std::move(run)) {}

  absl::Status DoSet(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::optional<std::string>> DoTryGet(std::string_view key) override;
  absl::StatusOr<int64_t> DoAdd(std::string_view key, int64_t delta) override;
  void DoPause(int round, absl::Duration limit) override;

  const std::string path_;  // As the user gave it, for messages.
  const StoreMember member_;
  Rendezvous run_;
};

}  // namespace zeroshard::comm
