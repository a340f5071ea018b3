// What a peer wrote, as a message may hold it: text stays, and nothing is left that a terminal obeys.
//
// Example:
//   PeerWords("it's late\x1b[2J");   // "it's late\x1b[2J", the escape character as four letters
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"

namespace zeroshard::comm {

inline std::string PeerWords(std::string_view words) {
  const std::string escaped = absl::Utf8SafeCHexEscape(absl::string_view(words.data(), words.size()));
  return absl::StrReplaceAll(escaped, {{"\\'", "'"}, {"\\\"", "\""}, {"\\\\", "\\"}});
}

}  // namespace zeroshard::comm
