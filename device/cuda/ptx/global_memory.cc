#include "zeroshard/device/cuda/ptx/global_memory.h"

#include <iterator>

#include "zeroshard/device/cuda/ptx/program.h"

namespace zeroshard::device::cuda::ptx {

void GlobalMemory::BeginLaunch(const std::vector<std::pair<uint64_t, int64_t>>& allocations,
                               const std::vector<std::byte>& constants, Resolve resolve) {
  resolve_ = std::move(resolve);
  last_ = nullptr;
  std::map<uint64_t, Allocation> now;
  for (const auto& [address, bytes] : allocations) {
    Allocation& allocation = now[address];
    const auto before = allocations_.find(address);
    if (before != allocations_.end() && before->second.bytes == bytes) allocation.log = std::move(before->second.log);
    allocation.address = address;
    allocation.bytes = bytes;
  }
  now[kModuleAddress] = {kModuleAddress, static_cast<int64_t>(constants.size()), const_cast<std::byte*>(constants.data())};
  allocations_ = std::move(now);
}

GlobalMemory::Found GlobalMemory::Find(uint64_t address, int64_t bytes) {
  const auto holds = [&](const Allocation& a) {
    return address >= a.address && address - a.address + static_cast<uint64_t>(bytes) <= static_cast<uint64_t>(a.bytes);
  };
  if (last_ == nullptr || !holds(*last_)) {
    const auto next = allocations_.upper_bound(address);
    if (next == allocations_.begin() || !holds(std::prev(next)->second)) return {};
    last_ = &std::prev(next)->second;
    if (last_->host == nullptr) {
      last_->host = resolve_(last_->address, last_->bytes);
      if (last_->log == nullptr) last_->log = std::make_unique<RaceLog>(static_cast<size_t>(last_->bytes));
    }
  }
  const size_t offset = address - last_->address;
  return {last_->host + offset, last_->log.get(), offset};
}

}  // namespace zeroshard::device::cuda::ptx
