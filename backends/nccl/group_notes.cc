#include "zeroshard/backends/nccl/group_notes.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "glog/logging.h"
#include "zeroshard/comm/peer_words.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

constexpr char kGivenUp[] = "given_up";
// How long one look for a header lasts before news of a failure is looked for.
constexpr absl::Duration kLook = absl::Milliseconds(20);

std::string HeaderKey(uint64_t sequence, int rank) { return absl::StrCat("op/", sequence, "/", rank); }
std::string LeftKey(int rank) { return absl::StrCat("left/", rank); }

// Another rank's cause, as this rank's own: what is a bug or bad input there is a lost peer here.
absl::StatusCode CodeHere(int code) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kDeadlineExceeded:
      return static_cast<absl::StatusCode>(code);
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

GroupNotes::GroupNotes(comm::Store& store, const std::string& prefix, int rank, int world_size, std::vector<int> numbers)
    : store_(prefix, store), rank_(rank), world_size_(world_size), numbers_(std::move(numbers)) {}

std::string GroupNotes::Called(std::span<const int> ranks) const {
  return absl::StrJoin(ranks, ", ", [this](std::string* out, int r) { absl::StrAppend(out, "rank ", Number(r)); });
}

absl::Status GroupNotes::Write(const comm::OperationHeader& mine) {
  if (written_ >= mine.sequence) return absl::OkStatus();
  ZS_RETURN_IF_ERROR(store_.Set(HeaderKey(mine.sequence, rank_), {reinterpret_cast<const char*>(&mine), sizeof mine}));
  written_ = mine.sequence;
  return absl::OkStatus();
}

std::optional<comm::OperationHeader> GroupNotes::Read(uint64_t sequence, int rank, absl::Duration timeout) {
  const absl::StatusOr<std::string> value = store_.Get(HeaderKey(sequence, rank), timeout);
  if (!value.ok()) return std::nullopt;
  comm::OperationHeader header;  // One of another size makes no sense, and the check says so.
  std::memcpy(&header, value->data(), std::min(value->size(), sizeof header));
  return header;
}

absl::Status GroupNotes::Agree(const comm::OperationHeader& mine, absl::Duration timeout, const std::atomic<bool>& stop) {
  ZS_RETURN_IF_ERROR(Write(mine));
  const absl::Time deadline = absl::Now() + timeout;
  std::vector<int> missing;
  for (int r = 0; r < (rank_ == 0 ? world_size_ : 1); ++r) {
    if (r == rank_) continue;
    std::optional<comm::OperationHeader> theirs;
    while (!(theirs = Read(mine.sequence, r, std::min(kLook, std::max(absl::ZeroDuration(), deadline - absl::Now()))))) {
      if (stop.load(std::memory_order_relaxed)) return absl::OkStatus();
      ZS_RETURN_IF_ERROR(WhyGivenUp(/*gone=*/true));
      if (absl::Now() < deadline) continue;
      missing.push_back(r);
      break;
    }
    if (theirs) ZS_RETURN_IF_ERROR(comm::CheckAgreement(mine, *theirs, Number(r)));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("within ", absl::FormatDuration(timeout), " it was not called by ", Called(missing)));
}

absl::Status GroupNotes::WhoIsLate(const comm::OperationHeader& mine, absl::Duration timeout, absl::Duration grace) {
  ZS_RETURN_IF_ERROR(Write(mine));
  const absl::Time deadline = absl::Now() + grace;
  std::vector<int> missing;
  for (int r = 0; r < world_size_; ++r) {
    if (r == rank_) continue;
    const auto theirs = Read(mine.sequence, r, std::max(absl::ZeroDuration(), deadline - absl::Now()));
    if (theirs) {
      ZS_RETURN_IF_ERROR(comm::CheckAgreement(mine, *theirs, Number(r)));
    } else {
      missing.push_back(r);
    }
  }
  ZS_RETURN_IF_ERROR(WhyGivenUp(/*gone=*/true));
  if (missing.empty()) {
    return absl::DeadlineExceededError(absl::StrCat("it has not ended within ", absl::FormatDuration(timeout),
                                                    " of its start on the device, though all ranks called it"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("it has not ended within ", absl::FormatDuration(timeout),
                   " of its start on the device; ranks that are not in it, or do not answer: ", Called(missing)));
}

void GroupNotes::GiveUp(const absl::Status& cause) {
  const auto earlier = store_.TryGet(kGivenUp);
  if (earlier.ok() && earlier->has_value()) return;
  const std::string value = absl::StrCat(rank_, " ", static_cast<int>(cause.code()), " ", cause.message().substr(0, 4000));
  const absl::Status told = store_.Set(kGivenUp, value);
  if (!told.ok()) LOG(WARNING) << "nccl: cannot tell the other ranks: " << told.message();
}

void GroupNotes::Leave(absl::Duration patience) {
  if (!store_.Set(LeftKey(rank_), "").ok()) return;
  std::vector<std::string> all;
  for (int r = 0; r < world_size_; ++r) all.push_back(LeftKey(r));
  const absl::Time deadline = absl::Now() + patience;
  while (!store_.Wait(all, std::min(kLook, std::max(absl::ZeroDuration(), deadline - absl::Now()))).ok()) {
    if (absl::Now() >= deadline || !WhyGivenUp(/*gone=*/false).ok()) return;
  }
}

absl::Status GroupNotes::WhyGivenUp(bool gone) {
  const auto given_up = store_.TryGet(kGivenUp);
  if (!given_up.ok()) return absl::OkStatus();  // A store that does not answer is asked no more.
  if (given_up->has_value()) {
    const std::vector<std::string> parts = absl::StrSplit(**given_up, absl::MaxSplits(' ', 2));
    int rank = -1, code = 0;
    if (parts.size() == 3 && absl::SimpleAtoi(parts[0], &rank) && absl::SimpleAtoi(parts[1], &code) && rank != rank_ &&
        rank >= 0 && rank < world_size_) {
      return absl::Status(CodeHere(code), absl::StrCat("rank ", Number(rank), " gave up: ", comm::PeerWords(parts[2])));
    }
  }
  for (int r = 0; gone && r < world_size_; ++r) {
    if (r == rank_) continue;
    const auto left = store_.TryGet(LeftKey(r));
    if (!left.ok()) return absl::OkStatus();
    if (left->has_value()) return absl::UnavailableError(absl::StrCat("rank ", Number(r), " has left"));
  }
  return absl::OkStatus();
}

void GroupNotes::NoteStep(int64_t step, uint64_t hash) {
  std::lock_guard<std::mutex> lock(mutex_);
  steps_[step % kSteps] = {.step = step, .hash = hash, .open = true};
}

absl::Status GroupNotes::CheckSteps() {
  for (int i = 0; i < kSteps; ++i) {
    StepHash mine;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      mine = steps_[i];
    }
    if (!mine.open) continue;
    const std::string key = absl::StrCat("step/", i);
    if (rank_ == 0) {
      ZS_RETURN_IF_ERROR(store_.Set(key, absl::StrCat(mine.step, " ", mine.hash)));
    } else {
      ZS_ASSIGN_OR_RETURN(const std::optional<std::string> theirs, store_.TryGet(key));
      const std::vector<std::string> parts = absl::StrSplit(theirs.value_or(""), ' ');
      int64_t step = -1;
      uint64_t hash = 0;
      if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &step) || !absl::SimpleAtoi(parts[1], &hash) ||
          step < mine.step) {
        continue;  // Rank 0 has not come so far.
      }
      if (step == mine.step && hash != mine.hash) {
        return absl::FailedPreconditionError(absl::StrCat(
            "ranks disagree: by the end of step ", mine.step, " rank ", Number(rank_),
            " had called other operations than rank ", Number(0), "; all ranks must make the same calls in the same order"));
      }
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (steps_[i].step == mine.step) steps_[i].open = false;
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::backends
