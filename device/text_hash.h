// A number for a text: the same in every process, on every machine and in every version. For telling texts apart, not for secrets.
//
// Example:
//   if (TextHash(mine) != TextHash(theirs)) ...
#pragma once

#include <cstdint>
#include <string_view>

namespace zeroshard::device {

inline constexpr uint64_t kTextHashBasis = 0xcbf29ce484222325u;

// FNV-1a, 64 bits (Fowler, Noll, Vo). From the hash of another text on, it is that of both, one behind the other.
constexpr uint64_t TextHash(std::string_view text, uint64_t hash = kTextHashBasis) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace zeroshard::device
