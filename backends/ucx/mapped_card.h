// MappedCard: what a rank publishes of its memory, so that others find it in their own process, and prove that it is what they see.
//
// Example:
//   store.Set(name, FormatCard({.address = address, .bytes = bytes, .proof = random, .key = worker.PackKey(memory)}));
//   const std::optional<MappedCard> theirs = ParseCard(value);
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zeroshard::backends {

struct MappedCard {
  uint64_t address = 0;
  int64_t bytes = 0;
  std::array<unsigned char, 16> proof = {};  // the memory begins with it
  std::string key = {};                      // UCX's
};

std::string FormatCard(const MappedCard& card);

// Nothing where `value`, which a peer gave, is no card with a key.
std::optional<MappedCard> ParseCard(std::string_view value);

}  // namespace zeroshard::backends
