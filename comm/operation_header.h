// OperationHeader: what a rank calls; and OperationBrief: what of it ranks tell each other before an operation's data, so that those
// that disagree are told so.
//
// Both travel between hosts of one architecture. What arrives is a stranger's until it was checked: every field may be anything.
//
// Example:
//   const OperationHeader mine = MakeHeader(operation, rank, world_size);
//   ... exchange briefs, with Digest(mine); and headers, where the digests differ ...
//   ZS_RETURN_IF_ERROR(CheckAgreement(mine, theirs));
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard::comm {

struct OperationHeader {
  uint64_t magic = 0;
  uint64_t sequence = 0;
  int64_t count = 0;
  uint64_t layout = 0;       // hash of the segments' counts and strides
  int64_t staged_bytes = 0;  // of a piece, where the device is staged; 0: not staged
  int32_t rank = 0;
  int32_t world_size = 0;
  int32_t root = -1;
  int32_t segments = 0;
  uint8_t kind = 0;
  uint8_t op = 0;
  uint8_t in_dtype = 0;
  uint8_t out_dtype = 0;
  uint8_t schedules = 0;            // ScheduleChoice
  uint8_t carried = 0;              // bytes of a brief's keys that are the call's whole input
  std::array<char, 42> label = {};  // for people; not compared
};
static_assert(std::is_trivially_copyable_v<OperationHeader>);
static_assert(sizeof(OperationHeader) == 104);

// Small: with a word of its transport it fits a line of a cache, and crosses between cores at once.
struct OperationBrief {
  uint64_t digest = 0;
  // Of the first segment in mapped memory, its input and output; 0: none. Of a call that travels in its briefs: the input.
  std::array<uint64_t, 2> keys = {};
  int32_t rank = 0;
  uint32_t mapped = 0;  // 1: all of its memory is mapped
};
static_assert(std::is_trivially_copyable_v<OperationBrief>);
static_assert(sizeof(OperationBrief) == 32);

OperationHeader MakeHeader(const Operation& operation, int rank, int world_size);
// In two parts: what a digest is of, and what people read.
OperationHeader MakeHeaderForDigest(const Operation& operation, int rank, int world_size);
void SetLabel(OperationHeader& header, std::string_view label);

// Of all that CheckAgreement compares.
uint64_t Digest(const OperationHeader& header);

// As Describe(Operation); says what it can of a header that makes no sense.
std::string Describe(const OperationHeader& header);

// Of the operation that a peer began last, whatever it holds: "none" where it has no magic. For messages: escaped.
std::string DescribeLast(const OperationHeader& header);

// Errors: kFailedPrecondition, with what each of the two ranks called. Ranks are as Transport::number gives them.
absl::Status CheckAgreement(const OperationHeader& mine, const OperationHeader& theirs, int their_rank);

}  // namespace zeroshard::comm
