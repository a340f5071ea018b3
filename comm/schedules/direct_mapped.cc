#include "zeroshard/comm/schedules/direct_mapped.h"

#include <cstring>

#include "zeroshard/comm/schedules/own_part.h"
#include "zeroshard/comm/schedules/pieces.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// A piece is read between BeginRead and EndRead: long enough that these cost nothing, short enough that a rank which gives up need
// not wait long for its readers.
constexpr int64_t kPieceBytes = int64_t{256} << 10;

// From this size on nothing of a result is in a cache when it is wanted next: it is stored past it.
constexpr int64_t kStreamingBytes = int64_t{8} << 20;

// A peer's memory, held for reading.
class ReadScope {
 public:
  explicit ReadScope(Transport& transport) : transport_(transport) {}
  ~ReadScope() {
    while (held_ > 0) transport_.EndRead(peers_[--held_]);
  }
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;

  absl::Status Begin(std::span<const int> peers) {
    peers_ = peers;
    for (; held_ < peers.size(); ++held_) ZS_RETURN_IF_ERROR(transport_.BeginRead(peers[held_]));
    return absl::OkStatus();
  }

 private:
  Transport& transport_;
  std::span<const int> peers_;
  size_t held_ = 0;
};

device::Stores StoresOf(const HostCall& call, const HostSegment& segment) {
  const bool large = segment.count * call.in_size() >= kStreamingBytes;
  const bool reread = call.kind == OpKind::kAllReduce;  // by peers, at once
  const std::byte* const end = segment.in + (segment.stride + segment.count) * call.in_size();
  const bool in_place = segment.out >= segment.in && segment.out < end;
  return large && !reread && !in_place ? device::Stores::kStreaming : device::Stores::kCached;
}

// Sums elements [first, first + count) of every rank's `in` into `out`, a piece at a time.
absl::Status SumMapped(Exchange& exchange, const HostCall& call, size_t index, int64_t first, int64_t count,
                       std::byte* out) {
  const HostSegment& segment = call.segments[index];
  const std::span<const void*> parts = exchange.parts().first(static_cast<size_t>(exchange.world_size()));
  device::ReduceSpec spec = WholeReduction(call, exchange.world_size());
  spec.stores = StoresOf(call, segment);
  const int64_t most = kPieceBytes / call.in_size();
  for (int64_t done = 0; done < count; done += most) {
    const int64_t n = std::min(most, count - done);
    const int64_t offset = (first + done) * call.in_size();
    ReadScope reading(exchange.transport());
    ZS_RETURN_IF_ERROR(reading.Begin(exchange.peers()));
    parts[static_cast<size_t>(exchange.rank())] = segment.in + offset;
    for (const int p : exchange.peers()) {
      ZS_ASSIGN_OR_RETURN(const std::byte* theirs, exchange.PeerIn(p, index, offset + n * call.in_size()));
      parts[static_cast<size_t>(p)] = theirs + offset;
    }
    device::ReduceParts(spec, parts, out + done * call.out_size(), n);
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
    ReadScope reading(exchange.transport());
    ZS_RETURN_IF_ERROR(reading.Begin({&peer, 1}));
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
    for (const int p : exchange.peers()) exchange.CountRead(PartOf(call, segment, p, n).count * call.in_size());
    ZS_RETURN_IF_ERROR(SumMapped(exchange, call, i, own.first, own.count, ReducedPart(call, segment, exchange.rank(), n)));
  }
  return exchange.SwapTokens(exchange.peers(), exchange.peers());
}

absl::Status GatherPartsMapped(Exchange& exchange, const HostCall& call) {
  const int n = exchange.world_size();
  const int64_t size = call.out_size();
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const HostSegment& segment = call.segments[i];
    exchange.CountRead((n - 1) * PartOf(call, segment, exchange.rank(), n).count * size);
    for (const int p : exchange.peers()) {
      const Stretch part = PartOf(call, segment, p, n);
      if (part.count == 0) continue;
      const bool whole = call.kind == OpKind::kAllReduce;
      const int64_t bytes = part.count * size;
      const int64_t at = part.first * size;
      ZS_ASSIGN_OR_RETURN(const std::byte* theirs,
                          whole ? exchange.PeerOut(p, i, at + bytes) : exchange.PeerIn(p, i, bytes));
      ZS_RETURN_IF_ERROR(CopyMapped(exchange, p, theirs + (whole ? at : 0), segment.out + at, bytes));
    }
  }
  return exchange.SwapTokens(exchange.peers(), exchange.peers());
}

absl::Status ReduceMapped(Exchange& exchange, const HostCall& call) {
  const bool root = exchange.rank() == call.root;
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const HostSegment& segment = call.segments[i];
    if (!root) exchange.CountRead(segment.count * call.in_size());
    if (!root) continue;
    ZS_RETURN_IF_ERROR(SumMapped(exchange, call, i, 0, segment.count, segment.out));
  }
  return root ? exchange.SwapTokens(exchange.peers(), {}) : exchange.SwapTokens({}, {&call.root, 1});
}

absl::Status BroadcastMapped(Exchange& exchange, const HostCall& call) {
  const bool root = exchange.rank() == call.root;
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const HostSegment& segment = call.segments[i];
    const int64_t bytes = segment.count * call.in_size();
    if (root) {
      exchange.CountRead((exchange.world_size() - 1) * bytes);
      continue;
    }
    ZS_ASSIGN_OR_RETURN(const std::byte* theirs, exchange.PeerIn(call.root, i, bytes));
    ZS_RETURN_IF_ERROR(CopyMapped(exchange, call.root, theirs, segment.out, bytes));
  }
  return root ? exchange.SwapTokens({}, exchange.peers()) : exchange.SwapTokens({&call.root, 1}, {});
}

}  // namespace zeroshard::comm
