// What comes from another host comes to the rank in its sender's place, which hands it on within the host.
#include "zeroshard/comm/schedules/by_host.h"
#include "zeroshard/comm/schedules/host_steps.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// Of a piece: a message's fixed cost is small beside it.
constexpr int64_t kPieceBytes = int64_t{512} << 10;

class GatherByHost {
 public:
  GatherByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid)
      : exchange_(exchange),
        call_(call),
        grid_(grid),
        n_(exchange.world_size()),
        me_(exchange.rank()),
        host_(grid.HostOf(me_)),
        place_(grid.PlaceOf(me_)) {}

  // In turn t a host's own parts go to the t-th host after it, and in turn 0 to nobody else.
  absl::Status GatherParts() {
    const auto begin = [&](const HostStep& step) {
      if (step.turn == 0) return;
      Receive(step, Owner(step), Owner(step));
      Send(step, grid_.RankAt((host_ + step.turn) % grid_.hosts, place_), me_);
    };
    const auto turn = [&](const HostStep& step) -> absl::Status {
      const int owner = Owner(step);
      ZS_RETURN_IF_ERROR(exchange_.WaitAll(In(step).subspan(static_cast<size_t>(owner), 1)));
      for (int i = 1; i < grid_.each; ++i) {
        const int from = (place_ + grid_.each - i) % grid_.each;
        Receive(step, grid_.RankAt(host_, from), grid_.RankAt(grid_.HostOf(owner), from));
        Send(step, grid_.RankAt(host_, (place_ + i) % grid_.each), owner);
      }
      return absl::OkStatus();
    };
    return Run(grid_.hosts, begin, turn);
  }

  absl::Status Broadcast() {
    const int root = call_.root;
    const bool in_roots_place = place_ == grid_.PlaceOf(root);
    const int hander = grid_.RankAt(host_, grid_.PlaceOf(root));
    const auto begin = [&](const HostStep& step) {
      if (me_ != root) return Receive(step, in_roots_place ? root : hander, root);
      for (int i = 1; i < grid_.hosts; ++i) Send(step, grid_.RankAt((host_ + i) % grid_.hosts, place_), root);
    };
    const auto turn = [&](const HostStep& step) -> absl::Status {
      if (!in_roots_place) return absl::OkStatus();
      ZS_RETURN_IF_ERROR(exchange_.WaitAll(In(step)));
      for (int i = 1; i < grid_.each; ++i) Send(step, grid_.RankAt(host_, (place_ + i) % grid_.each), root);
      return absl::OkStatus();
    };
    return Run(1, begin, turn);
  }

 private:
  template <class Begin, class Turn>
  absl::Status Run(int turns, Begin begin, Turn turn) {
    const auto end = [&](const HostStep& step) -> absl::Status {
      ZS_RETURN_IF_ERROR(exchange_.WaitAll(In(step)));
      return exchange_.WaitAll(Out(step));
    };
    return RunHostSteps(HostStepCursor(call_, n_, kPieceBytes / call_.out_size(), turns), begin, turn, end);
  }

  // Whose part is in this rank's hands in a turn.
  int Owner(const HostStep& step) const { return grid_.RankAt((host_ + grid_.hosts - step.turn) % grid_.hosts, place_); }
  std::byte* Data(const HostStep& step, int part) const {
    const HostSegment& segment = *step.piece.segment;
    return segment.out + (PartOf(call_, segment, part, n_).first + step.piece.columns.first) * call_.out_size();
  }
  int64_t Bytes(const HostStep& step, int part) const {
    return CountIn(PartOf(call_, *step.piece.segment, part, n_), step.piece.columns) * call_.out_size();
  }
  std::span<Transfer> In(const HostStep& step) const { return Transfers(2 * step.slot); }
  std::span<Transfer> Out(const HostStep& step) const { return Transfers(2 * step.slot + 1); }
  std::span<Transfer> Transfers(int row) const {
    return exchange_.transfers().subspan(static_cast<size_t>(row * n_), static_cast<size_t>(n_));
  }
  void Send(const HostStep& step, int to, int part) {
    const int64_t bytes = Bytes(step, part);
    if (bytes > 0) Out(step)[static_cast<size_t>(to)] = exchange_.Send(to, Data(step, part), bytes);
  }
  void Receive(const HostStep& step, int from, int part) {
    const int64_t bytes = Bytes(step, part);
    if (bytes > 0) In(step)[static_cast<size_t>(from)] = exchange_.Receive(from, Data(step, part), bytes);
  }

  Exchange& exchange_;
  const HostCall& call_;
  const HostGrid grid_;
  const int n_;
  const int me_;
  const int host_;
  const int place_;
};

}  // namespace

absl::Status GatherPartsByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid) {
  return GatherByHost(exchange, call, grid).GatherParts();
}

absl::Status BroadcastByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid) {
  return GatherByHost(exchange, call, grid).Broadcast();
}

}  // namespace zeroshard::comm
