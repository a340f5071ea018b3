// First each host adds up its ranks' inputs of a part, on the rank in the place of the part's owner; then the owner the hosts' sums.
#include <algorithm>

#include "zeroshard/comm/schedules/by_host.h"
#include "zeroshard/comm/schedules/host_steps.h"
#include "zeroshard/comm/schedules/own_part.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

using device::DType;

// Note: the rooms of the scratch, in columns of `elements_`. For each of kPieces pieces the sums of all hosts; for each slot a sum
// that goes to another host, and an input of every other rank of this one.
class ReduceByHost : HostStepRank {
 public:
  // Pieces of which a step may be under way: a piece has a step for each host, at least two.
  static constexpr int kPieces = 2;
  static_assert((kPieces - 1) * 2 >= kStepsBegun - 1);

  ReduceByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid)
      : HostStepRank(exchange, call, grid),
        type_(AccumulatorOf(call.in)),
        elements_(ElementsOf(exchange, call, grid, SizeOf(type_))),
        gotten_(exchange.scratch().data()),
        sums_(gotten_ + kPieces * grid.hosts * elements_ * SizeOf(type_)),
        inputs_(sums_ + kStepsBegun * elements_ * SizeOf(type_)) {}

  absl::Status Run() {
    return RunHostSteps(
        HostStepCursor(call_, n_, elements_, grid_.hosts), [&](const HostStep& step) { Begin(step); },
        [&](const HostStep& step) { return Turn(step); }, [&](const HostStep& step) { return End(step); });
  }

 private:
  static int64_t ElementsOf(Exchange& exchange, const HostCall& call, const HostGrid& grid, int64_t size) {
    const int64_t columns = kStepsBegun * (grid.each - 1) * call.in_size() + (kStepsBegun + kPieces * grid.hosts) * size;
    const int64_t elements =
        std::min(static_cast<int64_t>(exchange.scratch().size()) / columns, exchange.transport().piece_bytes() / size);
    return elements >= 64 ? elements / 64 * 64 : std::max<int64_t>(elements, 1);
  }

  // The host whose parts are added up in a turn, this rank's own last; and the one whose sum for this rank comes in that turn.
  int TargetOf(const HostStep& step) const { return (host_ + 1 + step.turn) % grid_.hosts; }
  int SourceOf(const HostStep& step) const { return (host_ + 2 * grid_.hosts - 1 - step.turn) % grid_.hosts; }

  const std::byte* Raw(const HostStep& step, int part) const {
    return step.piece.segment->in + First(step, part) * call_.in_size();
  }
  std::byte* Input(const HostStep& step, int place) const {
    const int64_t column = step.slot * (grid_.each - 1) + (place < place_ ? place : place - 1);
    return inputs_ + column * elements_ * call_.in_size();
  }
  std::byte* Sum(const HostStep& step) const { return sums_ + step.slot * elements_ * SizeOf(type_); }
  std::byte* Gotten(const HostStep& step, int host) const {
    return gotten_ + (step.piece_number % kPieces * grid_.hosts + host) * elements_ * SizeOf(type_);
  }

  void Begin(const HostStep& step) {
    const int target = TargetOf(step);
    for (int i = 1; i < grid_.each; ++i) {
      const int from = (place_ + grid_.each - i) % grid_.each;
      const int to = (place_ + i) % grid_.each;
      const int theirs = grid_.RankAt(target, to);
      Receive(step, grid_.RankAt(host_, from), Input(step, from),
              Count(step, grid_.RankAt(target, place_)) * call_.in_size());
      Send(step, grid_.RankAt(host_, to), Raw(step, theirs), Count(step, theirs) * call_.in_size());
    }
    const int source = SourceOf(step);
    if (target == host_) return;
    Receive(step, grid_.RankAt(source, place_), Gotten(step, source), Count(step, me_) * SizeOf(type_));
  }

  absl::Status Turn(const HostStep& step) {
    const size_t first = static_cast<size_t>(grid_.RankAt(host_, 0));
    ZS_RETURN_IF_ERROR(exchange_.WaitAll(In(step).subspan(first, static_cast<size_t>(grid_.each))));
    const int target = TargetOf(step);
    const int owner = grid_.RankAt(target, place_);
    const int64_t count = Count(step, owner);
    if (count == 0) return absl::OkStatus();
    const std::span<const void*> parts = exchange_.parts().first(static_cast<size_t>(grid_.each));
    for (int p = 0; p < grid_.each; ++p) parts[static_cast<size_t>(p)] = p == place_ ? Raw(step, owner) : Input(step, p);
    std::byte* const sum = target == host_ ? Gotten(step, host_) : Sum(step);
    device::ReduceParts({.in = call_.in, .out = type_, .combine = CombineOf(call_.op)}, parts, sum, count);
    if (target != host_) Send(step, owner, sum, count * SizeOf(type_));
    return absl::OkStatus();
  }

  // In a piece's last turn every host's sum is there: the others' came in the turns before.
  absl::Status End(const HostStep& step) {
    ZS_RETURN_IF_ERROR(WaitAll(step));
    const int64_t count = Count(step, me_);
    if (TargetOf(step) != host_ || count == 0) return absl::OkStatus();
    device::ReduceSpec spec = WholeReduction(call_, n_);
    spec.in = type_;
    const std::span<const void*> parts = exchange_.parts().first(static_cast<size_t>(grid_.hosts));
    for (int h = 0; h < grid_.hosts; ++h) parts[static_cast<size_t>(h)] = Gotten(step, h);
    std::byte* const out = ReducedPart(call_, *step.piece.segment, me_, n_) + step.piece.columns.first * call_.out_size();
    device::ReduceParts(spec, parts, out, count);
    return absl::OkStatus();
  }

  const DType type_;
  const int64_t elements_;
  std::byte* const gotten_;
  std::byte* const sums_;
  std::byte* const inputs_;
};

}  // namespace

absl::Status ReducePartsByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid) {
  return ReduceByHost(exchange, call, grid).Run();
}

}  // namespace zeroshard::comm
