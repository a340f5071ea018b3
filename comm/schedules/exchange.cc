#include "zeroshard/comm/schedules/exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// Of one message of Swap: large enough that its fixed cost is small, small enough that the window stays in a core's cache.
constexpr int64_t kSwapBytes = int64_t{256} << 10;
constexpr int kSwapDepth = 4;

constexpr std::byte kToken{1};

}  // namespace

Exchange::Exchange(Transport& transport, WireLedger& ledger, std::span<std::byte> scratch, std::vector<int> peers,
                   Meeting meeting)
    : transport_(transport),
      ledger_(ledger),
      scratch_(scratch),
      peers_(std::move(peers)),
      rank_(transport.rank()),
      world_size_(transport.world_size()),
      meeting_(meeting),
      maps_memory_(transport.maps_memory()),
      told_(peers_.size()),
      place_(static_cast<size_t>(world_size_), -1),
      transfers_(static_cast<size_t>(world_size_) * kTransfersPerPeer),
      parts_(static_cast<size_t>(world_size_)),
      outs_(static_cast<size_t>(world_size_)) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    place_[static_cast<size_t>(peers_[i])] = static_cast<int>(i);
    told_[i].number = transport.number(peers_[i]);
  }
}

void Exchange::Tell(OperationHeader& mine, const HostCall& call, Traffic traffic) {
  traffic_ = traffic;
  listed_ = false;
  mine_ = {};
  const bool reachable = meets_all() && mine.staged_bytes == 0;
  carried_ = meeting_ == Meeting::kAll && mine.staged_bytes == 0 && CarryInput(mine, call);
  mapped_ = reachable && !carried_ && MapKeys(call);
  mine_.digest = Digest(mine);
  mine_.rank = mine.rank;
  mine_.mapped = mapped_ ? 1 : 0;
  const size_t n = peers_.size();
  const int64_t peers = static_cast<int64_t>(n);
  // First, since what is counted for all threads would wait for what was sent.
  ledger_.Add(Traffic::kControl, peers * (static_cast<int64_t>(sizeof(mine_)) - mine.carried));
  if (mine.carried != 0) ledger_.Add(traffic_, peers * mine.carried);
  for (size_t i = 0; i < n; ++i) transfers_[n + i] = transport_.Send(peers_[i], Channel::kControl, &mine_, sizeof(mine_));
  for (size_t i = 0; i < n; ++i) {
    transfers_[i] = transport_.Receive(peers_[i], Channel::kControl, &told_[i].brief, sizeof(mine_));
  }
}

bool Exchange::Agrees(size_t place) const {
  const Told& told = told_[place];
  return told.brief.digest == mine_.digest && told.brief.rank == told.number;
}

absl::Status Exchange::Hear(const OperationHeader& mine, Deadline deadline) {
  deadline_ = deadline;
  const size_t n = peers_.size();
  for (size_t i = 0; i < n; ++i) {
    ZS_RETURN_IF_ERROR(Wait(std::exchange(transfers_[i], {})));
    if (!Agrees(i)) return Disagree(mine, i);
    mapped_ = mapped_ && told_[i].brief.mapped != 0;
  }
  if (!maps_memory_) transport_.Met(peers_);
  ZS_RETURN_IF_ERROR(WaitAll(transfers().subspan(n, n)));
  listed_ = mapped_ && my_keys_.size() > mine_.keys.size();
  return listed_ ? SwapKeys() : absl::OkStatus();
}

// Peers [0, place) agree, peers_[place] does not: both send their headers. So do the others that disagree, or may: each waits for
// the header of the first that it finds, who may have found another one first.
absl::Status Exchange::Disagree(const OperationHeader& mine, size_t place) {
  const size_t n = peers_.size();
  const std::span<Transfer> out = transfers().subspan(n, n);
  ZS_RETURN_IF_ERROR(WaitAll(out));
  for (size_t i = place; i < n; ++i) out[i] = SendControl(peers_[i], &mine, sizeof(mine));
  other_ = {};
  ZS_RETURN_IF_ERROR(Wait(transport_.Receive(peers_[place], Channel::kControl, &other_, sizeof(other_))));
  WaitAll(out).IgnoreError();  // What they called is known.
  ZS_RETURN_IF_ERROR(CheckAgreement(mine, other_, told_[place].number));
  return absl::FailedPreconditionError(absl::StrCat("rank ", told_[place].number, " called ", Describe(other_), " as rank ",
                                                    mine.rank, " did, but told of it what is not so"));
}

// A small all-reduce: its input goes with the brief.
bool Exchange::CarryInput(OperationHeader& mine, const HostCall& call) {
  if (call.kind != OpKind::kAllReduce || call.segments.size() != 1) return false;
  const int64_t bytes = call.segments[0].count * call.in_size();
  if (bytes > static_cast<int64_t>(sizeof(mine_.keys))) return false;
  if (bytes == sizeof(uint32_t)) {  // In a register: whoever sends a word that was written in parts waits for it.
    uint32_t word;
    std::memcpy(&word, call.segments[0].in, sizeof(word));
    mine_.keys[0] = word;
  } else {
    std::memcpy(mine_.keys.data(), call.segments[0].in, static_cast<size_t>(bytes));
  }
  mine.carried = static_cast<uint8_t>(bytes);
  return true;
}

bool Exchange::MapKeys(const HostCall& call) {
  if (call.segments.empty() || !maps_memory_) return false;
  const bool reads = call.kind != OpKind::kBroadcast || call.root == rank_;
  const int64_t ranks = call.kind == OpKind::kReduceScatter ? world_size_ : 1;
  my_keys_.clear();
  for (const HostSegment& segment : call.segments) {
    const int64_t in_bytes = ((ranks - 1) * segment.stride + segment.count) * call.in_size();
    my_keys_.push_back(reads ? transport_.MapKey(segment.in, in_bytes) : 1);
    my_keys_.push_back(call.kind == OpKind::kAllReduce ? transport_.MapKey(segment.out, segment.count * call.out_size())
                                                       : 1);
    if (my_keys_.back() == 0 || my_keys_[my_keys_.size() - 2] == 0) return false;
  }
  mine_.keys = {my_keys_[0], my_keys_[1]};
  return true;
}

absl::Status Exchange::SwapKeys() {
  const size_t n = peers_.size();
  const int64_t bytes = static_cast<int64_t>(my_keys_.size() * sizeof(uint64_t));
  const std::span<Transfer> in = transfers().subspan(0, n);
  const std::span<Transfer> out = transfers().subspan(n, n);
  for (size_t i = 0; i < n; ++i) {
    told_[i].keys.resize(my_keys_.size());
    in[i] = transport_.Receive(peers_[i], Channel::kControl, told_[i].keys.data(), bytes);
  }
  for (size_t i = 0; i < n; ++i) out[i] = SendControl(peers_[i], my_keys_.data(), bytes);
  ZS_RETURN_IF_ERROR(WaitAll(in));
  return WaitAll(out);
}

Transfer Exchange::SendControl(int peer, const void* data, int64_t bytes) {
  ledger_.Add(Traffic::kControl, bytes);
  return transport_.Send(peer, Channel::kControl, data, bytes);
}

Transfer Exchange::Send(int peer, const void* data, int64_t bytes) {
  ledger_.Add(traffic_, bytes);
  return transport_.Send(peer, Channel::kData, data, bytes);
}

Transfer Exchange::Receive(int peer, void* data, int64_t bytes) {
  return transport_.Receive(peer, Channel::kData, data, bytes);
}

absl::Status Exchange::Wait(Transfer transfer) { return transport_.Wait(transfer, deadline_); }

absl::Status Exchange::WaitAll(std::span<Transfer> transfers) {
  for (Transfer& transfer : transfers) {
    if (transfer.id != 0) ZS_RETURN_IF_ERROR(Wait(std::exchange(transfer, {})));
  }
  return absl::OkStatus();
}

absl::Status Exchange::Swap(int to, const void* out, int64_t out_bytes, int from, void* in, int64_t in_bytes) {
  Transfer sends[kSwapDepth] = {};
  Transfer receives[kSwapDepth] = {};
  const int64_t pieces = (std::max(out_bytes, in_bytes) + kSwapBytes - 1) / kSwapBytes;
  for (int64_t i = 0; i < pieces + kSwapDepth; ++i) {
    const size_t slot = static_cast<size_t>(i % kSwapDepth);
    ZS_RETURN_IF_ERROR(WaitAll({&receives[slot], 1}));
    ZS_RETURN_IF_ERROR(WaitAll({&sends[slot], 1}));
    const int64_t at = i * kSwapBytes;
    if (at < in_bytes) receives[slot] = Receive(from, static_cast<std::byte*>(in) + at, std::min(kSwapBytes, in_bytes - at));
    if (at < out_bytes)
      sends[slot] = Send(to, static_cast<const std::byte*>(out) + at, std::min(kSwapBytes, out_bytes - at));
  }
  return absl::OkStatus();
}

absl::Status Exchange::SwapTokens(std::span<const int> to, std::span<const int> from) {
  const std::span<Transfer> in = transfers().subspan(0, from.size());
  const std::span<Transfer> out = transfers().subspan(from.size(), to.size());
  const std::span<std::byte> words = scratch_.subspan(0, from.size());
  for (size_t i = 0; i < from.size(); ++i) in[i] = transport_.Receive(from[i], Channel::kControl, &words[i], 1);
  for (size_t i = 0; i < to.size(); ++i) out[i] = SendControl(to[i], &kToken, 1);
  ZS_RETURN_IF_ERROR(WaitAll(in));
  return WaitAll(out);
}

absl::StatusOr<std::byte*> Exchange::Mapped(int peer, size_t segment, int side, int64_t bytes) {
  const Told& told = told_[static_cast<size_t>(place_[static_cast<size_t>(peer)])];
  const uint64_t key =
      listed_ ? told.keys[2 * segment + static_cast<size_t>(side)] : told.brief.keys[static_cast<size_t>(side)];
  void* const address = transport_.MappedAddress(peer, key, bytes);
  if (address != nullptr) return static_cast<std::byte*>(address);
  return absl::InternalError(absl::StrCat("rank ", transport_.number(peer), " said that its memory is mapped, but key ", key,
                                          " with ", bytes, " bytes is none of it"));
}

absl::StatusOr<const std::byte*> Exchange::PeerIn(int peer, size_t segment, int64_t bytes) {
  return Mapped(peer, segment, 0, bytes);
}
absl::StatusOr<std::byte*> Exchange::PeerOut(int peer, size_t segment, int64_t bytes) {
  return Mapped(peer, segment, 1, bytes);
}

}  // namespace zeroshard::comm
