// The collective that a rank began last, as others are told of it: fixed size, so that noting one allocates nothing.
//
// Example:
//   LastOperation last;
//   NoteOperation(operation, last);
//   Describe(last);                     // "all-gather #41 'block.3' (fp32, 1024 elements)"
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard::comm {

struct LastOperation {
  uint64_t number = 0;  // 0: none yet
  uint64_t id = 0;      // of the rank's recorder: tells it from one of another group that has its number
  int64_t count = 0;
  OpKind kind = OpKind::kBarrier;
  device::DType dtype = device::DType::kUint8;
  bool ended = false;
  std::array<char, 69> label = {};  // what it holds of it, with a zero at the end
  std::array<char, 32> group = {};  // likewise: Operation::group
};

// Into `last`, which may hold an earlier one: what is behind a text's zero stays.
inline void NoteOperation(const Operation& operation, LastOperation& last) {
  const auto put = [](std::string_view from, auto& to) {
    const size_t length = std::min(from.size(), to.size() - 1);
    std::copy_n(from.begin(), length, to.begin());
    to[length] = '\0';
  };
  last.number = operation.sequence;
  last.id = operation.record.id;
  last.kind = operation.kind;
  last.dtype = operation.in_dtype;
  last.count = operation.count;
  last.ended = false;
  put(operation.label, last.label);
  put(operation.group, last.group);
}

inline std::string Describe(const LastOperation& last) {
  if (last.number == 0) return "none";
  const absl::string_view label(last.label.data()), group(last.group.data());
  return absl::StrCat(absl::string_view(Name(last.kind).data(), Name(last.kind).size()), " #", last.number,
                      label.empty() ? "" : absl::StrCat(" '", absl::CHexEscape(label), "'"), " (",
                      absl::string_view(Name(last.dtype).data(), Name(last.dtype).size()), ", ", last.count, " elements)",
                      group.empty() ? "" : absl::StrCat(" in ", absl::CHexEscape(group)));
}

}  // namespace zeroshard::comm
