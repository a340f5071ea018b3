#include "zeroshard/comm/operation_header.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/peer_words.h"

namespace zeroshard::comm {
namespace {

constexpr uint64_t kMagic = 0x7a65726f73683032;  // "zerosh02": this format

uint64_t Mix(uint64_t hash, int64_t value) {
  hash ^= static_cast<uint64_t>(value);
  hash *= 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

// Names are string views of string literals; Debian's absl::StrCat takes no std::string_view.
std::string DTypeName(uint8_t value) {
  if (value > static_cast<uint8_t>(device::DType::kUint8)) return absl::StrCat("dtype ", static_cast<int>(value));
  return std::string(device::Name(static_cast<device::DType>(value)));
}

}  // namespace

OperationHeader MakeHeader(const Operation& operation, int rank, int world_size) {
  OperationHeader header = MakeHeaderForDigest(operation, rank, world_size);
  SetLabel(header, operation.label);
  return header;
}

OperationHeader MakeHeaderForDigest(const Operation& operation, int rank, int world_size) {
  OperationHeader header;
  header.magic = kMagic;
  header.sequence = operation.sequence;
  header.count = operation.count;
  header.rank = rank;
  header.world_size = world_size;
  header.root = operation.root;
  header.segments = static_cast<int32_t>(operation.segments.size());
  header.kind = static_cast<uint8_t>(operation.kind);
  header.op = static_cast<uint8_t>(operation.op);
  header.in_dtype = static_cast<uint8_t>(operation.in_dtype);
  header.out_dtype = static_cast<uint8_t>(operation.out_dtype);
  for (const Segment& segment : operation.segments) {
    header.layout = Mix(Mix(header.layout + 1, PartElements(operation.kind, segment)), segment.stride);
  }
  return header;
}

void SetLabel(OperationHeader& header, std::string_view label) {
  std::copy_n(label.begin(), std::min(label.size(), header.label.size()), header.label.begin());
}

// A sum of products, each of which is on its way while the next one begins: whoever sends it waits for it.
uint64_t Digest(const OperationHeader& header) {
  const auto two = [](int32_t high, int32_t low) {
    return static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low);
  };
  const uint64_t bytes = uint64_t{header.kind} << 40 | uint64_t{header.op} << 32 | uint64_t{header.in_dtype} << 24 |
                         uint64_t{header.out_dtype} << 16 | uint64_t{header.schedules} << 8 | header.carried;
  // Odd; of the digits of pi.
  const uint64_t sum = header.magic * 0x243f6a8885a308d3 + header.sequence * 0x13198a2e03707345 +
                       static_cast<uint64_t>(header.count) * 0xa4093822299f31d1 + header.layout * 0x082efa98ec4e6c89 +
                       static_cast<uint64_t>(header.staged_bytes) * 0x452821e638d01377 +
                       two(header.root, header.segments) * 0xbe5466cf34e90c6d +
                       two(header.world_size, 0) * 0xc0ac29b7c97c50dd + bytes * 0x3f84d5b5b5470917;
  return sum ^ sum >> 29;
}

std::string Describe(const OperationHeader& header) {
  if (header.magic != kMagic || header.kind > static_cast<uint8_t>(OpKind::kFinalize)) {
    return "something that is no operation of this version";
  }
  const OpKind kind = static_cast<OpKind>(header.kind);
  std::string text = absl::StrCat(std::string(Name(kind)), " #", header.sequence);
  const std::string_view label(header.label.data(),
                               std::find(header.label.begin(), header.label.end(), '\0') - header.label.begin());
  if (!label.empty()) absl::StrAppend(&text, " '", PeerWords(label), "'");
  if (kind == OpKind::kBarrier || kind == OpKind::kFinalize) return text;
  absl::StrAppend(&text, " (");
  if (IsReduction(kind)) {
    const bool known = header.op <= static_cast<uint8_t>(ReduceOp::kMin);
    absl::StrAppend(&text, known ? std::string(Name(static_cast<ReduceOp>(header.op))) : "unknown", ", ");
  }
  if (header.root >= 0) absl::StrAppend(&text, "root ", header.root, ", ");
  absl::StrAppend(&text, DTypeName(header.in_dtype));
  if (header.out_dtype != header.in_dtype) absl::StrAppend(&text, " -> ", DTypeName(header.out_dtype));
  absl::StrAppend(&text, ", ", header.count, " elements");
  if (header.segments > 1) absl::StrAppend(&text, " in ", header.segments, " segments");
  absl::StrAppend(&text, ")");
  return text;
}

std::string DescribeLast(const OperationHeader& header) {
  if (header.magic == 0) return "none";
  std::string text;
  for (const char c : Describe(header)) {
    const bool prints = c >= ' ' && c <= '~';
    absl::StrAppend(&text, prints ? std::string(1, c) : absl::CHexEscape(std::string(1, c)));
  }
  return text;
}

absl::Status CheckAgreement(const OperationHeader& mine, const OperationHeader& theirs, int their_rank) {
  const auto fields = [](const OperationHeader& h) {
    return std::tuple(h.magic, h.sequence, h.count, h.layout, h.staged_bytes, h.world_size, h.root, h.segments, h.kind, h.op,
                      h.in_dtype, h.out_dtype, h.schedules, h.carried);
  };
  if (fields(mine) == fields(theirs) && theirs.rank == their_rank) return absl::OkStatus();
  std::string detail;
  const std::string my_call = Describe(mine);
  const std::string their_call = Describe(theirs);
  if (my_call == their_call) {
    detail = absl::StrCat(" (they differ in layout of segments, schedule, staging or world size: ", mine.layout, " and ",
                          theirs.layout, ", ", static_cast<int>(mine.schedules), " and ", static_cast<int>(theirs.schedules),
                          ", ", mine.staged_bytes, " and ", theirs.staged_bytes, ", ", mine.world_size, " and ",
                          theirs.world_size, ")");
  }
  return absl::FailedPreconditionError(absl::StrCat("ranks disagree: rank ", mine.rank, " called ", my_call, ", rank ",
                                                    their_rank, " called ", their_call, detail,
                                                    "; all ranks must make the same calls in the same order"));
}

}  // namespace zeroshard::comm
