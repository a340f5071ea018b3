#include "zeroshard/device/cpu/host_buffer.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/host_memory.h"

namespace zeroshard::device {
namespace {

// Memory that is there, credited in the ledger when it goes.
class Filed : public Buffer::Owner {
 public:
  Filed(MemoryLedger& ledger, Use use, int64_t bytes) : ledger_(ledger), use_(use), bytes_(bytes) {
    ledger_.Charge(use_, bytes_);
  }
  ~Filed() override { ledger_.Credit(use_, bytes_); }

 protected:
  int64_t bytes() const { return bytes_; }

 private:
  MemoryLedger& ledger_;
  const Use use_;
  const int64_t bytes_;
};

class Mapped final : public Filed {
 public:
  Mapped(HostMemory memory, MemoryLedger& ledger, Use use, int64_t bytes)
      : Filed(ledger, use, bytes), memory_(std::move(memory)) {}

 private:
  const HostMemory memory_;
};

class FromSource final : public Filed {
 public:
  FromSource(HostMemorySource& source, void* data, MemoryLedger& ledger, Use use, int64_t bytes)
      : Filed(ledger, use, bytes), source_(source), data_(data) {}
  ~FromSource() override { source_.Free(data_, bytes()); }

 private:
  HostMemorySource& source_;
  void* const data_;
};

uint64_t AddressOf(const void* data) { return reinterpret_cast<uint64_t>(data); }

}  // namespace

absl::StatusOr<Buffer> AllocateHostBuffer(int64_t bytes, Use use, std::string_view what, MemoryLedger& ledger,
                                          HostMemorySource* source) {
  if (source != nullptr && bytes > 0) {
    const absl::StatusOr<void*> data = source->Allocate(bytes);
    if (!data.ok()) return AllocationError(data.status(), what, ledger);
    return Buffer(AddressOf(*data), bytes, std::make_unique<FromSource>(*source, *data, ledger, use, bytes));
  }
  absl::StatusOr<HostMemory> memory = HostMemory::Map(bytes);
  if (!memory.ok()) return AllocationError(memory.status(), what, ledger);
  const uint64_t address = AddressOf(memory->data());
  return Buffer(address, bytes, std::make_unique<Mapped>(*std::move(memory), ledger, use, bytes));
}

absl::Status AllocationError(const absl::Status& why, std::string_view what, const MemoryLedger& ledger) {
  return absl::Status(why.code(),
                      absl::StrCat(std::string(what), ": ", why.message(),
                                   "; a smaller micro-batch, a higher stage on more ranks, activation checkpointing or "
                                   "offload need less\n",
                                   ledger.Table()));
}

}  // namespace zeroshard::device
