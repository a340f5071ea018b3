// The collective that a rank began last, as others are told of it.
//
// Example:
//   Describe(LastOf(device.recorder().LastOperation()));     // "all-gather #41 'block.3' (fp32, 1024 elements)"
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/operation.h"
#include "zeroshard/device/span.h"

namespace zeroshard::comm {

struct LastOperation {
  uint64_t number = 0;  // 0: none yet
  int64_t count = 0;
  OpKind kind = OpKind::kAllReduce;
  device::DType dtype = device::DType::kUint8;
  bool ended = false;
  std::array<char, 41> label = {};  // what a recorder holds of it, with a zero at the end
  std::array<char, 33> group = {};  // likewise: Operation::group
};

// What a recorder holds of a collective.
inline LastOperation LastOf(const device::Span& span) {
  LastOperation last;
  last.number = span.sequence;
  last.count = span.count;
  while (last.kind != OpKind::kFinalize && Name(last.kind) != device::View(span.name)) {
    last.kind = static_cast<OpKind>(static_cast<int>(last.kind) + 1);
  }
  last.dtype = span.dtype;
  last.ended = span.ended_ns != 0;
  device::View(span.label).copy(last.label.data(), last.label.size() - 1);
  device::View(span.group).copy(last.group.data(), last.group.size() - 1);
  return last;
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
