#include "zeroshard/device/free_ranges.h"

#include <iterator>
#include <utility>

namespace zeroshard::device {
namespace {

uint64_t End(const std::pair<const uint64_t, int64_t>& range) { return range.first + static_cast<uint64_t>(range.second); }

}  // namespace

void FreeRanges::AddPiece(uint64_t address, int64_t bytes) {
  pieces_.emplace(address, bytes);
  free_.emplace(address, bytes);
}

void FreeRanges::DropPiece(uint64_t address) {
  pieces_.erase(address);
  free_.erase(address);
}

std::optional<uint64_t> FreeRanges::Take(int64_t bytes) {
  auto chosen = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second >= bytes && (chosen == free_.end() || it->second < chosen->second)) chosen = it;
  }
  if (chosen == free_.end()) return std::nullopt;
  const auto [address, room] = *chosen;
  free_.erase(chosen);
  if (room > bytes) free_.emplace(address + static_cast<uint64_t>(bytes), room - bytes);
  return address;
}

void FreeRanges::Give(uint64_t address, int64_t bytes) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + static_cast<uint64_t>(bytes) && !pieces_.contains(next->first)) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && End(*std::prev(next)) == address && !pieces_.contains(address)) {
    std::prev(next)->second += bytes;
    return;
  }
  free_.emplace(address, bytes);
}

std::optional<uint64_t> FreeRanges::FreePieceAt(uint64_t address) const {
  const auto next = pieces_.upper_bound(address);
  if (next == pieces_.begin()) return std::nullopt;
  const auto& [start, bytes] = *std::prev(next);
  const auto free = free_.find(start);
  if (free == free_.end() || free->second != bytes) return std::nullopt;
  return start;
}

}  // namespace zeroshard::device
