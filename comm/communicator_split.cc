// Communicator::Split: who goes where is gathered over the communicator itself; the backend then joins those of one color.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

struct Choice {
  int64_t color;
  int64_t key;
};

// Every rank's choice, [world_size], in order of ranks.
absl::StatusOr<std::vector<Choice>> GatherChoices(Communicator& communicator, Choice mine) {
  device::Device& device = communicator.device();
  const int64_t world_size = communicator.world_size();
  ZS_ASSIGN_OR_RETURN(device::Buffer buffer, device.Allocate(world_size * static_cast<int64_t>(sizeof(Choice)),
                                                             device::Use::kCommunication, "choices of a split"));
  const device::Array all = buffer.array(device::DType::kInt64);
  const device::Array own = all.Slice(communicator.rank() * 2, 2);
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCommunication);
  const std::unique_ptr<device::Event> ready = device.MakeEvent();
  device.CopyFromHost(*stream, &mine, own);
  stream->Record(*ready);
  Work work = communicator.AllGather(own, all, {.after = {ready.get()}, .traffic = Traffic::kControl, .label = "split"});
  ZS_RETURN_IF_ERROR(work.Wait());
  work.WaitOn(*stream);
  std::vector<Choice> choices(static_cast<size_t>(world_size));
  device.CopyToHost(*stream, all, choices.data());
  stream->Synchronize();
  return choices;
}

// "4-7", "0,2", "0,2..30", "3": short where ranks are evenly spaced, however many they are.
std::string ListOf(const std::vector<int>& ranks) {
  const int step = ranks.size() < 2 ? 0 : ranks[1] - ranks[0];
  bool even = true;
  for (size_t i = 1; i < ranks.size(); ++i) even = even && ranks[i] - ranks[i - 1] == step;
  if (ranks.size() > 1 && even && step == 1) return absl::StrCat(ranks.front(), "-", ranks.back());
  if (ranks.size() > 3 && even) return absl::StrCat(ranks[0], ",", ranks[1], "..", ranks.back());
  return absl::StrJoin(ranks, ",");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Split(int color, int key, std::string_view name) {
  ZS_ASSIGN_OR_RETURN(const std::vector<Choice> choices, GatherChoices(*this, {color, key}));
  const uint64_t id = ++splits_;
  std::vector<int> members;
  for (int r = 0; r < world_size_; ++r) {
    const int64_t theirs = choices[static_cast<size_t>(r)].color;
    if (theirs < -1) {
      return absl::InvalidArgumentError(
          absl::StrCat("split: rank ", r, " gave color ", theirs, "; a color is 0 or more, or -1 to join none"));
    }
    if (theirs == color) members.push_back(r);
  }
  if (color == -1) {
    ZS_RETURN_IF_ERROR(DoStandAside(id));
    return nullptr;
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return choices[static_cast<size_t>(a)].key < choices[static_cast<size_t>(b)].key; });
  const auto me = std::find(members.begin(), members.end(), rank_);
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> part, DoSplit(members, static_cast<int>(me - members.begin()), id));
  part->wire_->CountIn(wire_);
  for (int member : members) part->numbers_.push_back(numbers_.empty() ? member : numbers_[static_cast<size_t>(member)]);
  part->group_ = absl::StrCat(std::string(name), " ", ListOf(part->numbers_));
  part->JoinFamily(FamilyOf());
  if (const absl::Status failed = status(); !failed.ok()) part->Abort(failed);
  return part;
}

}  // namespace zeroshard::comm
