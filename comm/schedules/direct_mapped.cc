#include "zeroshard/comm/schedules/direct_mapped.h"

#include <cstring>

#include "zeroshard/comm/schedules/own_part.h"
#include "zeroshard/comm/schedules/pieces.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// A piece is read and written between BeginAccess and EndAccess: long enough that these cost nothing, short enough that a rank which
// gives up need not wait long for its peers.
constexpr int64_t kPieceBytes = int64_t{256} << 10;

// From this size on nothing of a result is in a cache when it is wanted next: it is stored past it.
constexpr int64_t kStreamingBytes = int64_t{8} << 20;

// Peers' memory, held for reading and writing.
class AccessScope {
 public:
  explicit AccessScope(Transport& transport) : transport_(transport) {}
  ~AccessScope() {
    while (held_ > 0) transport_.EndAccess(peers_[--held_]);
  }
  AccessScope(const AccessScope&) = delete;
  AccessScope& operator=(const AccessScope&) = delete;

  absl::Status Begin(std::span<const int> peers) {
    peers_ = peers;
    for (; held_ < peers.size(); ++held_) ZS_RETURN_IF_ERROR(transport_.BeginAccess(peers[held_]));
    return absl::OkStatus();
  }

 private:
  Transport& transport_;
  std::span<const int> peers_;
  size_t held_ = 0;
};

device::Stores StoresOf(const HostCall& call, const HostSegment& segment) {
  const bool large = segment.count * call.in_size() >= kStreamingBytes;
  const std::byte* const end = segment.in + (segment.stride + segment.count) * call.in_size();
  const bool in_place = segment.out >= segment.in && segment.out < end;
  return large && !in_place ? device::Stores::kStreaming : device::Stores::kCached;
}

// Sums elements `stretch` of every rank's `in` into each of `outs`, a piece at a time; moves these on.
absl::Status SumMapped(Exchange& exchange, const HostCall& call, size_t index, const Stretch& stretch,
                       std::span<void*> outs) {
  const HostSegment& segment = call.segments[index];
  const std::span<const void*> parts = exchange.parts();
  device::ReduceSpec spec = WholeReduction(call, exchange.world_size());
  spec.stores = StoresOf(call, segment);
  const int64_t most = kPieceBytes / call.in_size();
  for (int64_t done = 0; done < stretch.count; done += most) {
    const int64_t n = std::min(most, stretch.count - done);
    const int64_t offset = (stretch.first + done) * call.in_size();
    AccessScope held(exchange.transport());
    ZS_RETURN_IF_ERROR(held.Begin(exchange.peers()));
    parts[static_cast<size_t>(exchange.rank())] = segment.in + offset;
    for (const int p : exchange.peers()) {
      ZS_ASSIGN_OR_RETURN(const std::byte* theirs, exchange.PeerIn(p, index, offset + n * call.in_size()));
      parts[static_cast<size_t>(p)] = theirs + offset;
    }
    device::ReduceParts(spec, parts, outs, n);
    for (void*& out : outs) out = static_cast<std::byte*>(out) + n * call.out_size();
  }
  return absl::OkStatus();
}

// memcpy, past the cache where that is worth it.
void CopyBytes(const std::byte* from, std::byte* to, int64_t bytes, bool streaming) {
  const bool whole_words = reinterpret_cast<uintptr_t>(from) % 8 == 0 && reinterpret_cast<uintptr_t>(to) % 64 == 0;
  if (!streaming || !whole_words) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  const int64_t words = bytes / 8;
  const void* const part[] = {from};
  device::ReduceParts({.in = device::DType::kInt64, .out = device::DType::kInt64, .stores = device::Stores::kStreaming},
                      part, to, words);
  std::memcpy(to + words * 8, from + words * 8, static_cast<size_t>(bytes - words * 8));
}

// Copies `bytes` of a peer's memory.
absl::Status CopyMapped(Exchange& exchange, int peer, const std::byte* from, std::byte* to, int64_t bytes) {
  for (int64_t done = 0; done < bytes; done += kPieceBytes) {
    AccessScope held(exchange.transport());
    ZS_RETURN_IF_ERROR(held.Begin({&peer, 1}));
    CopyBytes(from + done, to + done, std::min(kPieceBytes, bytes - done), bytes >= kStreamingBytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReducePartsMapped(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const HostSegment& segment = call.segments[i];
    const Stretch own = PartOf(call, segment, exchange.rank(), n);
    for (const int p : exchange.peers()) exchange.CountSent(PartOf(call, segment, p, n).count * call.in_size());
    void* out = segment.out;
    ZS_RETURN_IF_ERROR(SumMapped(exchange, call, i, own, {&out, 1}));
  }
  return exchange.SwapTokens(exchange.peers(), exchange.peers());
}

// Only the owner of a part reads it, and writes it everywhere: so it may lie in place, and nobody waits for anybody in between.
absl::Status AllReduceMapped(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const HostSegment& segment = call.segments[i];
    const Stretch own = PartOf(call, segment, exchange.rank(), n);
    exchange.CountSent((n - 1) * own.count * call.out_size());
    for (const int p : exchange.peers()) exchange.CountSent(PartOf(call, segment, p, n).count * call.in_size());
    const int64_t first = own.first * call.out_size();
    const int64_t end = first + own.count * call.out_size();
    const std::span<void*> outs = exchange.outs();
    outs[static_cast<size_t>(exchange.rank())] = segment.out + first;
    for (const int p : exchange.peers()) {
      ZS_ASSIGN_OR_RETURN(std::byte * theirs, exchange.PeerOut(p, i, end));
      outs[static_cast<size_t>(p)] = theirs + first;
    }
    ZS_RETURN_IF_ERROR(SumMapped(exchange, call, i, own, outs));
  }
  return exchange.SwapTokens(exchange.peers(), exchange.peers());
}

absl::Status GatherPartsMapped(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  const int64_t size = call.out_size();
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const HostSegment& segment = call.segments[i];
    exchange.CountSent((n - 1) * segment.count * size);
    for (const int p : exchange.peers()) {
      const Stretch part = PartOf(call, segment, p, n);
      const int64_t bytes = part.count * size;
      ZS_ASSIGN_OR_RETURN(const std::byte* theirs, exchange.PeerIn(p, i, bytes));
      ZS_RETURN_IF_ERROR(CopyMapped(exchange, p, theirs, segment.out + part.first * size, bytes));
    }
  }
  return exchange.SwapTokens(exchange.peers(), exchange.peers());
}

absl::Status ReduceMapped(Exchange& exchange, const HostCall& call) {
  const bool root = exchange.rank() == call.root;
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const HostSegment& segment = call.segments[i];
    if (!root) exchange.CountSent(segment.count * call.in_size());
    if (!root) continue;
    void* out = segment.out;
    ZS_RETURN_IF_ERROR(SumMapped(exchange, call, i, {0, segment.count}, {&out, 1}));
  }
  return root ? exchange.SwapTokens(exchange.peers(), {}) : exchange.SwapTokens({}, {&call.root, 1});
}

absl::Status BroadcastMapped(Exchange& exchange, const HostCall& call) {
  const bool root = exchange.rank() == call.root;
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const HostSegment& segment = call.segments[i];
    const int64_t bytes = segment.count * call.in_size();
    if (root) {
      exchange.CountSent((exchange.world_size() - 1) * bytes);
      continue;
    }
    ZS_ASSIGN_OR_RETURN(const std::byte* theirs, exchange.PeerIn(call.root, i, bytes));
    ZS_RETURN_IF_ERROR(CopyMapped(exchange, call.root, theirs, segment.out, bytes));
  }
  return root ? exchange.SwapTokens({}, exchange.peers()) : exchange.SwapTokens({&call.root, 1}, {});
}

}  // namespace zeroshard::comm
