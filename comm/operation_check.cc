#include "zeroshard/comm/operation_check.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/reduce.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

using device::Array;
using device::DType;

template <class... Parts>
absl::Status Invalid(const Operation& operation, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(Describe(operation), ": ", parts...));
}

std::string NameOf(DType dtype) { return std::string(device::Name(dtype)); }

bool ReadsIn(const Operation& operation, int rank) { return operation.kind != OpKind::kBroadcast || operation.root == rank; }
bool WritesOut(const Operation& operation, int rank) { return operation.kind != OpKind::kReduce || operation.root == rank; }

absl::Status CheckDTypes(const Operation& operation) {
  const DType in = operation.in_dtype;
  const DType out = operation.out_dtype;
  if (!IsReduction(operation.kind)) {
    if (in == out) return absl::OkStatus();
    return Invalid(operation, "in is ", NameOf(in), " and out is ", NameOf(out), "; they must be of one dtype");
  }
  if (operation.op == ReduceOp::kAverage && !device::IsFloat(in)) {
    return Invalid(operation, "an average of ", NameOf(in), "; only floats have one: take the sum");
  }
  if (device::CanReduce({.in = in, .out = out})) return absl::OkStatus();
  return Invalid(operation, "cannot reduce ", NameOf(in), " into ", NameOf(out),
                 "; fp32, bf16 and fp16 reduce into one of them, fp64, int32 and int64 into themselves");
}

// Elements of a segment's side that holds a part for every rank.
absl::Status CheckStrided(const Operation& operation, size_t i, const Array& whole, int64_t part, int64_t stride,
                          int world_size, std::string_view side) {
  if (part > 0 && stride < part) {
    return Invalid(operation, "segment ", i, ": stride ", stride, " is less than its ", part, " elements a rank");
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 16;
  if (stride > (kMost - part) / world_size)
    return Invalid(operation, "segment ", i, ": stride ", stride, " is beyond memory");
  const int64_t wanted = part == 0 ? 0 : (world_size - 1) * stride + part;
  if (whole.elements() == wanted) return absl::OkStatus();
  return Invalid(operation, "segment ", i, ": ", std::string(side), " has ", whole.elements(), " elements; with ", part,
                 " a rank, stride ", stride, " and ", world_size, " ranks it must have ", wanted);
}

absl::Status CheckCounts(const Operation& operation, size_t i, const Segment& segment, int rank, int world_size) {
  const bool in = ReadsIn(operation, rank);
  const bool out = WritesOut(operation, rank);
  for (const Array* array : {in ? &segment.in : nullptr, out ? &segment.out : nullptr}) {
    if (array == nullptr) continue;
    if (array->elements() < 0) return Invalid(operation, "segment ", i, ": ", array->elements(), " elements");
    if (array->elements() > 0 && array->address() == 0) {
      return Invalid(operation, "segment ", i, ": ", array->elements(), " elements at a null address");
    }
  }
  if (operation.kind == OpKind::kReduceScatter) {
    return CheckStrided(operation, i, segment.in, segment.out.elements(), segment.stride, world_size, "in");
  }
  if (operation.kind == OpKind::kAllGather) {
    return CheckStrided(operation, i, segment.out, segment.in.elements(), segment.stride, world_size, "out");
  }
  if (in && out && segment.in.elements() != segment.out.elements()) {
    return Invalid(operation, "segment ", i, ": in has ", segment.in.elements(), " elements and out has ",
                   segment.out.elements());
  }
  return absl::OkStatus();
}

// Where a part for every rank lies: `part` bytes every `stride` bytes from `first` on.
void AddParts(std::vector<std::pair<uint64_t, uint64_t>>& ranges, uint64_t first, int64_t part, int64_t stride, int parts,
              int leave_out) {
  for (int p = 0; p < parts; ++p) {
    if (p == leave_out) continue;
    const uint64_t begin = first + static_cast<uint64_t>(p * stride);
    ranges.emplace_back(begin, begin + static_cast<uint64_t>(part));
  }
}

// Files what a segment reads and writes; what it updates in place counts as written alone.
void AddSegment(const Operation& operation, const Segment& segment, int rank, int world_size, OverlapRoom& room) {
  const int64_t part = PartElements(operation.kind, segment);
  if (part == 0) return;
  const int64_t in_size = SizeOf(segment.in.dtype());
  const int64_t out_size = SizeOf(segment.out.dtype());
  const bool scatters = operation.kind == OpKind::kReduceScatter;
  const bool gathers = operation.kind == OpKind::kAllGather;
  const uint64_t my_part = static_cast<uint64_t>(rank * segment.stride * in_size);
  const bool reads = ReadsIn(operation, rank);
  const bool writes = WritesOut(operation, rank);
  const bool in_place = reads && writes && in_size == out_size &&
                        segment.in.address() + (scatters ? my_part : 0) == segment.out.address() + (gathers ? my_part : 0);
  if (reads) {
    if (scatters) {
      AddParts(room.reads, segment.in.address(), part * in_size, segment.stride * in_size, world_size, in_place ? rank : -1);
    } else if (!in_place) {
      AddParts(room.reads, segment.in.address(), part * in_size, 0, 1, -1);
    }
  }
  if (writes) {
    AddParts(room.writes, segment.out.address(), part * out_size, segment.stride * out_size, gathers ? world_size : 1, -1);
  }
}

// Whether a written range meets another written or a read one.
bool Overlap(OverlapRoom& room) {
  std::sort(room.writes.begin(), room.writes.end());
  std::sort(room.reads.begin(), room.reads.end());
  for (size_t i = 1; i < room.writes.size(); ++i) {
    if (room.writes[i].first < room.writes[i - 1].second) return true;
  }
  size_t w = 0;  // Written ranges are disjoint now: those that end before a read begins are done with.
  for (const auto& [begin, end] : room.reads) {
    while (w < room.writes.size() && room.writes[w].second <= begin) ++w;
    if (w < room.writes.size() && room.writes[w].first < end) return true;
  }
  return false;
}

// Of a call of one segment that has no parts: it reads where it writes, or they are apart.
bool OverlapsAsAWhole(const Operation& operation, const Segment& segment, int rank) {
  const uint64_t in = segment.in.address(), out = segment.out.address();
  const uint64_t in_bytes = static_cast<uint64_t>(segment.in.bytes()),
                 out_bytes = static_cast<uint64_t>(segment.out.bytes());
  if (!ReadsIn(operation, rank) || !WritesOut(operation, rank) || (in == out && in_bytes == out_bytes)) return false;
  return in < out + out_bytes && out < in + in_bytes;
}

absl::Status CheckOverlap(const Operation& operation, int rank, int world_size, OverlapRoom& room) {
  const bool parts = operation.kind == OpKind::kReduceScatter || operation.kind == OpKind::kAllGather;
  if (!parts && operation.segments.size() == 1 && !OverlapsAsAWhole(operation, operation.segments[0], rank)) {
    return absl::OkStatus();
  }
  room.reads.clear();
  room.writes.clear();
  for (const Segment& segment : operation.segments) AddSegment(operation, segment, rank, world_size, room);
  if (!Overlap(room)) return absl::OkStatus();
  return Invalid(
      operation,
      "in and out overlap; in place is all-reduce, broadcast, reduce: in == out; reduce-scatter: out == in + rank * "
      "stride; all-gather: in == out + rank * stride, with elements of one size");
}

}  // namespace

absl::Status CheckOperation(Operation& operation, int rank, int world_size, OverlapRoom& room) {
  const bool rooted = operation.kind == OpKind::kReduce || operation.kind == OpKind::kBroadcast;
  if (rooted && (operation.root < 0 || operation.root >= world_size)) {
    return Invalid(operation, "root ", operation.root, " is none of the ranks 0 to ", world_size - 1);
  }
  if (operation.segments.empty()) return absl::OkStatus();
  const bool in = ReadsIn(operation, rank);
  const bool out = WritesOut(operation, rank);
  const Segment& first = operation.segments.front();
  operation.in_dtype = in ? first.in.dtype() : first.out.dtype();
  // A rank that gets nothing says nothing of the output's dtype: only the root does.
  operation.out_dtype = operation.kind == OpKind::kReduce ? operation.in_dtype : out ? first.out.dtype() : first.in.dtype();
  for (size_t i = 0; i < operation.segments.size(); ++i) {
    const Segment& segment = operation.segments[i];
    ZS_RETURN_IF_ERROR(CheckCounts(operation, i, segment, rank, world_size));
    if ((in && segment.in.dtype() != first.in.dtype()) || (out && segment.out.dtype() != first.out.dtype())) {
      return Invalid(operation, "segment ", i, " is of another dtype than segment 0; all must be of one");
    }
    operation.count += PartElements(operation.kind, segment);
  }
  ZS_RETURN_IF_ERROR(CheckDTypes(operation));
  if (operation.kind == OpKind::kReduce && out) {
    Operation at_root = operation;
    at_root.out_dtype = first.out.dtype();
    ZS_RETURN_IF_ERROR(CheckDTypes(at_root));
  }
  return CheckOverlap(operation, rank, world_size, room);
}

}  // namespace zeroshard::comm
