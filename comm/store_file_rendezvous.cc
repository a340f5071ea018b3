#include "zeroshard/comm/store_file_rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "zeroshard/comm/peer_words.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

constexpr int64_t kLimitBytes = 4096;
constexpr size_t kMostWords = 200;
constexpr char kCome[] = "come ";
constexpr char kRefused[] = "refused ";
constexpr char kRun[] = "run.";  // a run's folder, in the store's

bool StartsWith(const std::string& name, std::string_view prefix) { return name.compare(0, prefix.size(), prefix) == 0; }

// Whether it may be what RandomName gave: then it is one in a folder, and may be shown.
bool IsName(const std::string& name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); });
}

void Pause(int round, absl::Duration left) { absl::SleepFor(std::min(left, absl::Milliseconds(1 << std::min(round, 4)))); }

// Rank 0's side of "Note: the rendezvous".
class Leader {
 public:
  Leader(std::string folder, const StoreMember& member) : folder_(std::move(folder)), member_(member) {}

  absl::StatusOr<Rendezvous> Gather() {
    const absl::Time start = absl::Now();
    ZS_ASSIGN_OR_RETURN(FileLock lock, Lock());
    Sweep(/*asks_too=*/false);
    run_ = absl::StrCat(kRun, RandomName());
    const std::string run_folder = absl::StrCat(folder_, "/", run_);
    ZS_RETURN_IF_ERROR(MakePrivateFolder(run_folder));
    for (int round = 0;; ++round) {
      ZS_RETURN_IF_ERROR(AnswerAsks());
      ZS_ASSIGN_OR_RETURN(const std::vector<int> missing, MissingRanks(run_folder));
      if (missing.empty()) break;
      const absl::Duration left = member_.timeout - (absl::Now() - start);
      if (left <= absl::ZeroDuration()) {
        RemoveFolder(run_folder);
        Sweep(/*asks_too=*/true);
        return Late(missing);
      }
      Pause(round, left);
    }
    Sweep(/*asks_too=*/true, run_);
    return Rendezvous{run_folder, std::move(lock)};
  }

 private:
  absl::StatusOr<FileLock> Lock() {
    absl::StatusOr<FileLock> lock =
        FileLock::Acquire(absl::StrCat(folder_, "/leader.lock"), std::min(member_.timeout, absl::Seconds(5)));
    if (lock.ok() || !absl::IsDeadlineExceeded(lock.status())) return lock;
    return absl::AlreadyExistsError(
        absl::StrCat("the folder ", folder_, " is in use: rank 0 of another job holds it; give each job a path of its own"));
  }

  // Removes what other runs left, but for `keep`.
  void Sweep(bool asks_too, const std::string& keep = "") {
    absl::StatusOr<std::vector<std::string>> names = ListFolder(folder_);
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      const std::string path = absl::StrCat(folder_, "/", name);
      if (StartsWith(name, kRun) && name != keep) RemoveFolder(path);
      if (StartsWith(name, "answer.") || (asks_too && StartsWith(name, "ask."))) unlink(path.c_str());
    }
  }

  absl::Status AnswerAsks() {
    ZS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder_));
    for (const std::string& name : names) {
      if (!StartsWith(name, "ask.") || answered_.contains(name)) continue;
      const std::vector<std::string> parts = absl::StrSplit(name, '.');
      int rank = -1;
      if (parts.size() != 3 || !IsName(parts[1]) || !absl::SimpleAtoi(parts[1], &rank) || !IsName(parts[2])) continue;
      ZS_ASSIGN_OR_RETURN(const std::optional<std::string> world, ReadWhole(absl::StrCat(folder_, "/", name), kLimitBytes));
      if (!world.has_value()) continue;
      answered_.insert(name);
      ZS_RETURN_IF_ERROR(WriteWhole(folder_, absl::StrCat("answer.", parts[2]), Answer(rank, *world)));
    }
    return absl::OkStatus();
  }

  std::string Answer(int rank, const std::string& world) {
    if (rank > 0 && rank < member_.world_size && world == absl::StrCat(member_.world_size)) return absl::StrCat(kCome, run_);
    std::string objection = absl::StrCat("rank ", rank, " speaks of ", PeerWords(world.substr(0, kMostWords)),
                                         " ranks, rank 0 of ", member_.world_size, " ranks");
    objections_.push_back(objection);
    return absl::StrCat(kRefused, objection);
  }

  absl::StatusOr<std::vector<int>> MissingRanks(const std::string& run_folder) const {
    ZS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(run_folder));
    const std::set<std::string> marks(names.begin(), names.end());
    std::vector<int> missing;
    for (int rank = 1; rank < member_.world_size; ++rank) {
      if (!marks.contains(absl::StrCat("rank.", rank))) missing.push_back(rank);
    }
    return missing;
  }

  absl::Status Late(const std::vector<int>& missing) const {
    std::string message = absl::StrCat("the file store in ", folder_, ": after ", absl::FormatDuration(member_.timeout),
                                       missing.size() == 1 ? " rank " : " ranks ", absl::StrJoin(missing, ", "),
                                       missing.size() == 1 ? " has not come" : " have not come");
    if (objections_.empty()) return absl::DeadlineExceededError(message);
    return absl::FailedPreconditionError(absl::StrCat(message, "; ", absl::StrJoin(objections_, "; ")));
  }

  const std::string folder_;
  const StoreMember member_;
  std::string run_;
  std::set<std::string> answered_;
  std::vector<std::string> objections_;
};

absl::StatusOr<Rendezvous> Join(const std::string& folder, const StoreMember& member) {
  const absl::Time start = absl::Now();
  const std::string name = RandomName();
  const std::string ask = absl::StrCat("ask.", member.rank, ".", name);
  const std::string ask_path = absl::StrCat(folder, "/", ask);
  const std::string answer_path = absl::StrCat(folder, "/answer.", name);
  constexpr int kRoundsBetweenAsks = 8;
  std::optional<std::string> answer;
  for (int round = 0; !answer.has_value(); ++round) {
    if (round % kRoundsBetweenAsks == 0 && access(ask_path.c_str(), F_OK) != 0) {
      ZS_RETURN_IF_ERROR(WriteWhole(folder, ask, absl::StrCat(member.world_size)));
    }
    ZS_RETURN_IF_ERROR(ListFolder(folder).status());
    ZS_ASSIGN_OR_RETURN(answer, ReadWhole(answer_path, kLimitBytes));
    if (answer.has_value()) break;
    const absl::Duration left = member.timeout - (absl::Now() - start);
    if (left <= absl::ZeroDuration()) {
      unlink(ask_path.c_str());
      return absl::DeadlineExceededError(absl::StrCat("the file store in ", folder, ": rank 0 has not answered rank ",
                                                      member.rank, " within ", absl::FormatDuration(member.timeout),
                                                      "; is it running, with the same --store?"));
    }
    Pause(round, left);
  }
  unlink(ask_path.c_str());
  if (!StartsWith(*answer, kCome)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the file store in ", folder, ": rank 0 refused: ", PeerWords(std::string(absl::StripPrefix(*answer, kRefused)))));
  }
  const std::string run(absl::StripPrefix(*answer, kCome));
  if (!StartsWith(run, kRun) || !IsName(run.substr(sizeof(kRun) - 1))) {
    return absl::FailedPreconditionError(absl::StrCat("the file store in ", folder, ": \"",
                                                      PeerWords(run.substr(0, kMostWords)),
                                                      "\" is the name of no run; give --store=file: an empty folder"));
  }
  const std::string run_folder = absl::StrCat(folder, "/", run);
  ZS_ASSIGN_OR_RETURN(const bool first, CreateOnce(absl::StrCat(run_folder, "/rank.", member.rank)));
  if (!first) {
    return absl::AlreadyExistsError(
        absl::StrCat("the file store in ", folder, ": two processes say that they are rank ", member.rank));
  }
  return Rendezvous{run_folder, FileLock()};
}

}  // namespace

absl::StatusOr<Rendezvous> MeetInFolder(const std::string& folder, const StoreMember& member) {
  if (member.rank == 0) return Leader(folder, member).Gather();
  return Join(folder, member);
}

}  // namespace zeroshard::comm
