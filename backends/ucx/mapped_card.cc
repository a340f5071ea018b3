#include "zeroshard/backends/ucx/mapped_card.h"

#include <cstring>

namespace zeroshard::backends {
namespace {

// Before UCX's key.
struct Head {
  char magic[8];
  uint64_t address;
  int64_t bytes;
  std::array<unsigned char, 16> proof;
};
constexpr char kMagic[8] = {'z', 's', 'u', 'c', 'x', 'm', 'a', 'p'};

}  // namespace

std::string FormatCard(const MappedCard& card) {
  Head head = {.magic = {}, .address = card.address, .bytes = card.bytes, .proof = card.proof};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + card.key;
}

std::optional<MappedCard> ParseCard(std::string_view value) {
  Head head = {};
  if (value.size() <= sizeof(head)) return std::nullopt;
  std::memcpy(&head, value.data(), sizeof(head));
  if (std::memcmp(head.magic, kMagic, sizeof(kMagic)) != 0) return std::nullopt;
  return MappedCard{
      .address = head.address, .bytes = head.bytes, .proof = head.proof, .key = std::string(value.substr(sizeof(head)))};
}

}  // namespace zeroshard::backends
