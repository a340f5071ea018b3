#include "zeroshard/device/cpu/host_buffer.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/host_memory.h"

namespace zeroshard::device {
namespace {

class HostOwner final : public Buffer::Owner {
 public:
  // `pinning`: who unpins it; null where nobody pinned it.
  HostOwner(HostMemory memory, HostPinning* pinning, MemoryLedger& ledger, Use use, int64_t bytes)
      : memory_(std::move(memory)), pinning_(pinning), ledger_(ledger), use_(use), bytes_(bytes) {
    ledger_.Charge(use_, bytes_);
  }
  ~HostOwner() override {
    if (pinning_ != nullptr) pinning_->Unpin(memory_.data());
    ledger_.Credit(use_, bytes_);
  }

 private:
  const HostMemory memory_;
  HostPinning* const pinning_;
  MemoryLedger& ledger_;
  const Use use_;
  const int64_t bytes_;
};

}  // namespace

absl::StatusOr<Buffer> AllocateHostBuffer(int64_t bytes, Use use, std::string_view what, MemoryLedger& ledger,
                                          HostPinning* pinning) {
  absl::StatusOr<HostMemory> memory = HostMemory::Map(bytes);
  if (!memory.ok()) return AllocationError(memory.status(), what, ledger);
  if (bytes == 0) pinning = nullptr;
  if (pinning != nullptr) {
    const absl::Status pinned = pinning->Pin(memory->data(), bytes);
    if (!pinned.ok()) return AllocationError(pinned, what, ledger);
  }
  const uint64_t address = reinterpret_cast<uint64_t>(memory->data());
  return Buffer(address, bytes, std::make_unique<HostOwner>(*std::move(memory), pinning, ledger, use, bytes));
}

absl::Status AllocationError(const absl::Status& why, std::string_view what, const MemoryLedger& ledger) {
  return absl::Status(why.code(),
                      absl::StrCat(std::string(what), ": ", why.message(),
                                   "; a smaller micro-batch, a higher stage on more ranks, activation checkpointing or "
                                   "offload need less\n",
                                   ledger.Table()));
}

}  // namespace zeroshard::device
