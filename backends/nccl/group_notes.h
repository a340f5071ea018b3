// What the ranks of a NCCL communicator tell each other through the Store, beside NCCL: which operation each is in, a hash of each step's
// operations, and why one gave up.
//
// NCCL has no headers: ranks that disagree hang, or give wrong numbers, and over NVLink or shared memory a dead peer is never reported.
//
// Note: How disagreement is found. While a run begins (NcclCommunicator says how long) each operation's header is written to the Store,
// and read before the operation is given to NCCL: rank 0 reads everybody's, the others read rank 0's. Later headers are hashed, and
// the hash of all up to a step's end is compared with rank 0's when there is time: a step that is missed is caught by a later one. When a deadline has passed, the headers of that operation are written and
// read again, each rank reading all others'.
//
// Thread-safe.
//
// Example:
//   GroupNotes notes(store, "nccl/0/", rank, world_size);
//   ZS_RETURN_IF_ERROR(notes.Agree(MakeHeader(operation, rank, world_size), timeout, stop));
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/store_prefix.h"

namespace zeroshard::backends {

class GroupNotes {
 public:
  // numbers[r]: what messages call rank r (comm::Transport::number); empty: r.
  GroupNotes(comm::Store& store, const std::string& prefix, int rank, int world_size, std::vector<int> numbers = {});

  int Number(int rank) const { return numbers_.empty() ? rank : numbers_[static_cast<size_t>(rank)]; }

  comm::Store& store() { return store_; }
  comm::RankWatch* watch() { return store_.watch(); }

  // Writes `mine` and waits for the other side (see above). OK too once `stop` is set.
  // Errors: kFailedPrecondition ranks disagree, with what each called; kDeadlineExceeded, naming the ranks that have not called it;
  // why another rank gave up.
  absl::Status Agree(const comm::OperationHeader& mine, absl::Duration timeout, const std::atomic<bool>& stop);

  // After a deadline: which ranks have not called `mine` either, waiting up to `grace` for what they have to say.
  // Errors: always one: kFailedPrecondition ranks disagree; kDeadlineExceeded.
  absl::Status WhoIsLate(const comm::OperationHeader& mine, absl::Duration timeout, absl::Duration grace);

  // Tells the others why this rank gives up. The group's first cause stays.
  void GiveUp(const absl::Status& cause);
  // This rank takes no further part, and all that it called has ended. Waits until all others have left, no longer than `patience`, nor
  // once another has given up.
  void Leave(absl::Duration patience);
  // Why another rank gave up: "rank 1 gave up: ..."; or OK. `gone`: also where one has left.
  absl::Status WhyGivenUp(bool gone);

  // The hash of all operations up to the end of a step; compared with rank 0's as soon as both are there.
  void NoteStep(int64_t step, uint64_t hash);
  // Errors: kFailedPrecondition a hash differs from rank 0's.
  absl::Status CheckSteps();

 private:
  static constexpr int kSteps = 32;  // whose hashes are kept

  absl::Status Write(const comm::OperationHeader& mine);
  std::string Called(std::span<const int> ranks) const;  // "rank 1, rank 3"
  std::optional<comm::OperationHeader> Read(uint64_t sequence, int rank, absl::Duration timeout);

  comm::PrefixStore store_;
  const int rank_;
  const int world_size_;
  const std::vector<int> numbers_;
  std::atomic<uint64_t> written_{0};  // the latest operation whose header is there

  std::mutex mutex_;
  struct StepHash {
    int64_t step = -1;
    uint64_t hash = 0;
    bool open = false;  // to be written, or compared
  };
  StepHash steps_[kSteps];
};

}  // namespace zeroshard::backends
