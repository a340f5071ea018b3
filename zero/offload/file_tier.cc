// StateTier in a file: sub-group after sub-group, each its states one after another, in whole pages.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "zeroshard/device/buffer.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/offload/state_file.h"
#include "zeroshard/zero/offload/state_tier.h"

namespace zeroshard::zero {
namespace {

using device::Array;
using device::DType;

constexpr int64_t kPageElements = kFileAlignmentBytes / SizeOf(DType::kFloat32);
static_assert(kFileGroupElements % kPageElements == 0);

class FileTier final : public StateTier {
 public:
  FileTier(device::Device& host, const OffloadPlan& plan) : host_(&host), plan_(plan), buffers_(plan.buffers) {}

  absl::Status Make(const std::string& folder, const void* owner) {
    for (InMemory& buffer : buffers_) {
      ZS_ASSIGN_OR_RETURN(buffer.memory,
                          host_->Allocate(GroupBytes(), device::Use::kCommunication, "sub-groups of offloaded state"));
    }
    ZS_ASSIGN_OR_RETURN(file_, StateFile::Create({.folder = folder, .bytes = plan_.groups * GroupBytes(), .owner = owner}));
    return absl::OkStatus();
  }

  absl::Status Fetch(int64_t group) override {
    InMemory& buffer = BufferOf(group);
    ZS_RETURN_IF_ERROR(file_->Wait(buffer.written));
    file_->Read(group * GroupBytes(), Memory(buffer), GroupBytes(), buffer.read);
    return absl::OkStatus();
  }
  absl::Status Await(int64_t group) override { return file_->Wait(BufferOf(group).read); }
  void Store(int64_t group) override {
    InMemory& buffer = BufferOf(group);
    file_->Write(group * GroupBytes(), Memory(buffer), GroupBytes(), buffer.written);
  }
  Array Of(int state, int64_t group) const override {
    const Array all = buffers_[group % plan_.buffers].memory.array(DType::kFloat32);
    return all.Slice(state * plan_.group_elements, plan_.Group(group).count);
  }

  // Through the first buffer: the pages that hold the range.
  absl::StatusOr<Array> Open(int state, Range range) override {
    for (InMemory& buffer : buffers_) ZS_RETURN_IF_ERROR(file_->Wait(buffer.written));
    const int64_t group = plan_.GroupOf(range.first);
    const int64_t begin = range.first - plan_.Group(group).first;
    opened_.memory_first = begin / kPageElements * kPageElements;
    opened_.bytes = (RoundUp(begin + range.count, kPageElements) - opened_.memory_first) * SizeOf(DType::kFloat32);
    opened_.offset = group * GroupBytes() + (state * plan_.group_elements + opened_.memory_first) * SizeOf(DType::kFloat32);
    InMemory& buffer = buffers_.front();
    file_->Read(opened_.offset, OpenedMemory(), opened_.bytes, buffer.read);
    ZS_RETURN_IF_ERROR(file_->Wait(buffer.read));
    return buffer.memory.array(DType::kFloat32).Slice(begin, range.count);
  }
  absl::Status Close(bool written) override {
    if (!written) return absl::OkStatus();
    InMemory& buffer = buffers_.front();
    file_->Write(opened_.offset, OpenedMemory(), opened_.bytes, buffer.written);
    return file_->Wait(buffer.written);
  }

 private:
  struct InMemory {
    device::Buffer memory;  // one sub-group
    Transfer read;
    Transfer written;
  };
  struct Opened {
    int64_t memory_first = 0;
    int64_t bytes = 0;
    int64_t offset = 0;
  };

  int64_t GroupBytes() const { return plan_.states * plan_.group_elements * SizeOf(DType::kFloat32); }
  InMemory& BufferOf(int64_t group) { return buffers_[group % plan_.buffers]; }
  std::byte* Memory(const InMemory& buffer) const {
    return static_cast<std::byte*>(host_->HostAddress(buffer.memory.array(DType::kUint8)));
  }
  std::byte* OpenedMemory() const { return Memory(buffers_.front()) + opened_.memory_first * SizeOf(DType::kFloat32); }

  device::Device* host_;
  const OffloadPlan plan_;
  std::vector<InMemory> buffers_;  // outlive the file, which ends what is under way
  Opened opened_;
  std::unique_ptr<StateFile> file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StateTier>> MakeFileTier(device::Device& host, const OffloadPlan& plan,
                                                        const std::string& folder, const void* owner) {
  auto tier = std::make_unique<FileTier>(host, plan);
  ZS_RETURN_IF_ERROR(tier->Make(folder, owner));
  return tier;
}

}  // namespace zeroshard::zero
