#include "zeroshard/backends/ucx/region_table.h"

#include <algorithm>

namespace zeroshard::backends {
namespace {

// Of a key: an offset of up to 1 TiB, and above it the region's number.
constexpr int kOffsetBits = 40;
constexpr uint64_t kOffsets = uint64_t{1} << kOffsetBits;

}  // namespace

void RegionTable::Add(uint64_t number, const MappedRegion& region) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back({number, &region});
}

void RegionTable::Remove(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.erase(
      std::remove_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.number == number; }),
      entries_.end());
}

uint64_t RegionTable::KeyOf(const void* data, int64_t bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    const uint64_t offset = reinterpret_cast<uint64_t>(data) - reinterpret_cast<uint64_t>(entry.region->data());
    const uint64_t size = static_cast<uint64_t>(entry.region->bytes());
    if (offset <= size && static_cast<uint64_t>(bytes) <= size - offset && offset < kOffsets) {
      return entry.number << kOffsetBits | offset;
    }
  }
  return 0;
}

void* RegionTable::AddressOf(int peer, uint64_t key, int64_t bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t offset = key % kOffsets;
  for (const Entry& entry : entries_) {
    if (entry.number != key >> kOffsetBits) continue;
    const uint64_t size = static_cast<uint64_t>(entry.region->bytes());
    if (bytes < 0 || offset > size || static_cast<uint64_t>(bytes) > size - offset) return nullptr;
    return static_cast<std::byte*>(entry.region->address(peer)) + offset;
  }
  return nullptr;
}

}  // namespace zeroshard::backends
