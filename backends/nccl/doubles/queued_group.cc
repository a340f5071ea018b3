#include "zeroshard/backends/nccl/doubles/queued_group.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/testing/reference.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends::doubles {
namespace {

bool Reduces(Call call) { return call == Call::kAllReduce || call == Call::kReduceScatter || call == Call::kReduce; }

void* Resolve(const device::AddressMap& map, const void* address, size_t bytes) {
  return map.Resolve(reinterpret_cast<uint64_t>(address), static_cast<int64_t>(bytes));
}

template <class T>
T Combine(int op, T a, T b) {
  if (op == ncclSum) return static_cast<T>(a + b);
  if constexpr (std::is_floating_point_v<T>) {
    return op == ncclMax ? std::fmax(a, b) : std::fmin(a, b);  // NaN is dropped.
  }
  return op == ncclMax ? (a > b ? a : b) : (a < b ? a : b);
}

template <class T>
struct Plain {
  using Value = T;
  static T Load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void Store(T value, std::byte* at) { std::memcpy(at, &value, sizeof value); }
};
template <float (*kLoad)(uint16_t), uint16_t (*kStore)(float)>
struct Narrow {
  using Value = float;
  static float Load(const std::byte* at) { return kLoad(Plain<uint16_t>::Load(at)); }
  static void Store(float value, std::byte* at) { Plain<uint16_t>::Store(kStore(value), at); }
};

// From the last part down to the first, stored at every hop.
template <class Element>
void Fold(int op, const std::byte* parts, int world_size, size_t count, size_t size, std::byte* out) {
  for (size_t i = 0; i < count; ++i) {
    std::byte hop[8];
    std::memcpy(hop, parts + ((world_size - 1) * count + i) * size, size);
    for (int p = world_size - 2; p >= 0; --p) {
      Element::Store(Combine(op, Element::Load(hop), Element::Load(parts + (p * count + i) * size)), hop);
    }
    std::memcpy(out + i * size, hop, size);
  }
}

void FoldAs(ncclDataType_t dtype, int op, const std::byte* parts, int world_size, size_t count, std::byte* out) {
  const size_t size = SizeOf(dtype);
  switch (dtype) {
    case ncclFloat32:
      return Fold<Plain<float>>(op, parts, world_size, count, size, out);
    case ncclFloat64:
      return Fold<Plain<double>>(op, parts, world_size, count, size, out);
    case ncclInt32:
      return op == ncclSum ? Fold<Plain<uint32_t>>(op, parts, world_size, count, size, out)
                           : Fold<Plain<int32_t>>(op, parts, world_size, count, size, out);
    case ncclInt64:
      return op == ncclSum ? Fold<Plain<uint64_t>>(op, parts, world_size, count, size, out)
                           : Fold<Plain<int64_t>>(op, parts, world_size, count, size, out);
    case ncclBfloat16:
      return Fold<Narrow<comm::testing::FromBfloat16, comm::testing::ToBfloat16>>(op, parts, world_size, count, size, out);
    case ncclFloat16:
      return Fold<Narrow<comm::testing::FromFloat16, comm::testing::ToFloat16>>(op, parts, world_size, count, size, out);
    default:
      device::EndTest(absl::StrCat("a reduction of NCCL's dtype ", static_cast<int>(dtype), ", which we never ask for"));
  }
}

}  // namespace

size_t SizeOf(ncclDataType_t dtype) {
  switch (dtype) {
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    case ncclBfloat16:
    case ncclFloat16:
      return 2;
    case ncclUint8:
      return 1;
    default:
      device::EndTest(absl::StrCat("NCCL's dtype ", static_cast<int>(dtype), ", which we never use"));
  }
}

Tag QueuedGroup::TagOf(const CallArguments& call) const {
  const bool peer_to_peer =
      call.call == Call::kPeerToPeer;  // Each side names the other, and registration is each side's own.
  return {.call = static_cast<int32_t>(call.call),
          .dtype = call.dtype,
          .op = call.op,
          .root = peer_to_peer ? 0 : call.root,
          .registered = peer_to_peer ? 0 : call.registered,
          .place = peer_to_peer ? 0 : call.place,
          .count = call.count};
}

void QueuedGroup::Send(int peer, size_t call, size_t at, size_t count) {
  const CallArguments& arguments = calls_[call].arguments;
  sends_.push_back({Sending(shared_->From(rank_, peer), TagOf(arguments), count * SizeOf(arguments.dtype)), peer, call, at});
}

void QueuedGroup::Receive(int peer, size_t call, size_t at, size_t count) {
  const CallArguments& arguments = calls_[call].arguments;
  receives_.push_back({Receiving(shared_->From(peer, rank_), TagOf(arguments), count * SizeOf(arguments.dtype), rank_, peer),
                       peer, call, at});
}

void QueuedGroup::Add(const CallArguments& arguments) {
  const size_t call = calls_.size();
  calls_.push_back({arguments, {}});
  const int n = shared_->world_size();
  const size_t bytes = arguments.count * SizeOf(arguments.dtype);
  const bool root = rank_ == arguments.root;
  const bool scatters = arguments.call == Call::kReduceScatter;
  const bool gathers = arguments.call == Call::kAllGather;
  const bool reads = arguments.in != nullptr && (arguments.call != Call::kBroadcast || root);
  const bool writes = arguments.out != nullptr && (arguments.call != Call::kReduce || root);
  const auto touch = [&](const void* at, size_t each, bool all, device::AccessMode mode) {
    accesses_.push_back(
        {reinterpret_cast<uint64_t>(at), static_cast<int64_t>(each * (all ? static_cast<size_t>(n) : 1)), mode});
  };
  if (reads) touch(arguments.in, bytes, scatters, device::AccessMode::kRead);
  if (writes) touch(arguments.out, bytes, gathers, device::AccessMode::kWrite);
  if (Reduces(arguments.call)) calls_.back().staging.resize(bytes * static_cast<size_t>(n));
  if (arguments.call == Call::kPeerToPeer) {
    if (root) device::EndTest("ncclSend or ncclRecv with this rank itself, which we never ask for");
    arguments.in != nullptr ? Send(arguments.root, call, 0, arguments.count)
                            : Receive(arguments.root, call, 0, arguments.count);
    return;
  }
  for (int peer = 0; peer < n; ++peer) {
    if (peer == rank_) continue;
    const bool sends = arguments.call == Call::kBroadcast ? root : arguments.call != Call::kReduce || peer == arguments.root;
    const bool receives =
        arguments.call == Call::kBroadcast ? peer == arguments.root : arguments.call != Call::kReduce || root;
    if (sends) Send(peer, call, scatters ? static_cast<size_t>(peer) * bytes : 0, arguments.count);
    if (receives) Receive(peer, call, static_cast<size_t>(peer) * bytes, arguments.count);
  }
}

// Messages of one channel go one after the other.
bool QueuedGroup::Poll(const device::AddressMap& map) {
  bool done = true;
  unsigned busy = 0;  // a bit for each peer
  for (Out& out : sends_) {
    if (out.done || (busy >> out.peer & 1) != 0) continue;
    const CallArguments& call = calls_[out.call].arguments;
    const size_t bytes = call.count * SizeOf(call.dtype);
    const auto* from = static_cast<const std::byte*>(Resolve(map, static_cast<const std::byte*>(call.in) + out.at, bytes));
    out.done = out.message.Step(from);
    if (!out.done) busy |= 1u << out.peer;
  }
  done = busy == 0;
  busy = 0;
  for (In& in : receives_) {
    if (in.done || (busy >> in.peer & 1) != 0) continue;
    Kept& call = calls_[in.call];
    const size_t bytes = call.arguments.count * SizeOf(call.arguments.dtype);
    std::byte* to = call.staging.data() + in.at;
    if (!Reduces(call.arguments.call)) {
      const size_t at = call.arguments.call == Call::kAllGather ? in.at : 0;
      to = static_cast<std::byte*>(Resolve(map, static_cast<std::byte*>(call.arguments.out) + at, bytes));
    }
    in.done = in.message.Step(to);
    if (!in.done) busy |= 1u << in.peer;
  }
  if (!done || busy != 0) return false;
  for (Kept& call : calls_) Finish(call, map);
  return true;
}

// This rank's own part, and the sums.
void QueuedGroup::Finish(Kept& call, const device::AddressMap& map) const {
  const CallArguments& a = call.arguments;
  const size_t bytes = a.count * SizeOf(a.dtype);
  const auto rank = static_cast<size_t>(rank_);
  if (a.call == Call::kPeerToPeer || bytes == 0 || (rank_ != a.root && a.call == Call::kBroadcast)) return;
  if (a.call == Call::kReduce && rank_ != a.root) return;
  const size_t in_at = a.call == Call::kReduceScatter ? rank * bytes : 0;
  const void* own = Resolve(map, static_cast<const std::byte*>(a.in) + in_at, bytes);
  const size_t out_at = a.call == Call::kAllGather ? rank * bytes : 0;
  auto* out = static_cast<std::byte*>(Resolve(map, static_cast<std::byte*>(a.out) + out_at, bytes));
  if (!Reduces(a.call)) {
    if (own != out) std::memcpy(out, own, bytes);
    return;
  }
  std::memcpy(call.staging.data() + rank * bytes, own, bytes);
  FoldAs(a.dtype, a.op, call.staging.data(), shared_->world_size(), a.count, out);
}

}  // namespace zeroshard::backends::doubles
