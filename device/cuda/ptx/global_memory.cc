#include "zeroshard/device/cuda/ptx/global_memory.h"

#include <iterator>

namespace zeroshard::device::cuda::ptx {

void GlobalMemory::AddConstant(uint64_t address, const std::vector<std::byte>& bytes) {
  allocations_[address] = {address, static_cast<int64_t>(bytes.size()), const_cast<std::byte*>(bytes.data()), nullptr};
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
      last_->log = std::make_unique<RaceLog>(static_cast<size_t>(last_->bytes));
    }
  }
  const size_t offset = address - last_->address;
  return {last_->host + offset, last_->log.get(), offset};
}

}  // namespace zeroshard::device::cuda::ptx
