// What comes from another host comes to the rank in its sender's place, which hands it on within the host.
#include "zeroshard/comm/schedules/by_host.h"
#include "zeroshard/comm/schedules/host_steps.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// Of a piece: a message's fixed cost is small beside it.
constexpr int64_t kPieceBytes = int64_t{512} << 10;

class GatherByHost : HostStepRank {
 public:
  using HostStepRank::HostStepRank;

  // In turn t a host's own parts go to the t-th host after it, and in turn 0 to nobody else.
  absl::Status GatherParts() {
    const auto begin = [&](const HostStep& step) {
      if (step.turn == 0) return;
      ReceivePart(step, Owner(step), Owner(step));
      SendPart(step, grid_.RankAt((host_ + step.turn) % grid_.hosts, place_), me_);
    };
    const auto turn = [&](const HostStep& step) -> absl::Status {
      const int owner = Owner(step);
      ZS_RETURN_IF_ERROR(exchange_.WaitAll(In(step).subspan(static_cast<size_t>(owner), 1)));
      for (int i = 1; i < grid_.each; ++i) {
        const int from = (place_ + grid_.each - i) % grid_.each;
        ReceivePart(step, grid_.RankAt(host_, from), grid_.RankAt(grid_.HostOf(owner), from));
        SendPart(step, grid_.RankAt(host_, (place_ + i) % grid_.each), owner);
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
      if (me_ != root) return ReceivePart(step, in_roots_place ? root : hander, root);
      for (int i = 1; i < grid_.hosts; ++i) SendPart(step, grid_.RankAt((host_ + i) % grid_.hosts, place_), root);
    };
    const auto turn = [&](const HostStep& step) -> absl::Status {
      if (!in_roots_place) return absl::OkStatus();
      ZS_RETURN_IF_ERROR(exchange_.WaitAll(In(step)));
      for (int i = 1; i < grid_.each; ++i) SendPart(step, grid_.RankAt(host_, (place_ + i) % grid_.each), root);
      return absl::OkStatus();
    };
    return Run(1, begin, turn);
  }

 private:
  template <class Begin, class Turn>
  absl::Status Run(int turns, Begin begin, Turn turn) {
    const auto end = [&](const HostStep& step) { return WaitAll(step); };
    return RunHostSteps(HostStepCursor(call_, n_, kPieceBytes / call_.out_size(), turns), begin, turn, end);
  }

  // Whose part is in this rank's hands in a turn.
  int Owner(const HostStep& step) const { return grid_.RankAt((host_ + grid_.hosts - step.turn) % grid_.hosts, place_); }
  void* Data(const HostStep& step, int part) const { return step.piece.segment->out + First(step, part) * call_.out_size(); }
  int64_t Bytes(const HostStep& step, int part) const { return Count(step, part) * call_.out_size(); }
  void SendPart(const HostStep& step, int to, int part) { Send(step, to, Data(step, part), Bytes(step, part)); }
  void ReceivePart(const HostStep& step, int from, int part) { Receive(step, from, Data(step, part), Bytes(step, part)); }
};

}  // namespace

absl::Status GatherPartsByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid) {
  return GatherByHost(exchange, call, grid).GatherParts();
}

absl::Status BroadcastByHost(Exchange& exchange, const HostCall& call, const HostGrid& grid) {
  return GatherByHost(exchange, call, grid).Broadcast();
}

}  // namespace zeroshard::comm
