#include "zeroshard/backends/nccl/registered_memory.h"

#include <nccl.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/backends/nccl/nccl_errors.h"
#include "zeroshard/device/cpu/host_buffer.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

constexpr int64_t kNoRoom = -1;
constexpr absl::Duration kDropWithin = absl::Seconds(10);

int64_t Rounded(int64_t bytes) {
  return (bytes + NCCL_WIN_REQUIRED_ALIGNMENT - 1) / NCCL_WIN_REQUIRED_ALIGNMENT * NCCL_WIN_REQUIRED_ALIGNMENT;
}

// What is made on the thread that calls NCCL, which may outlive whoever waits for it.
struct Memory {
  void* address = nullptr;
  ncclWindow_t window = nullptr;
  void* registration = nullptr;
};

class RegisteredOwner final : public device::Buffer::Owner {
 public:
  RegisteredOwner(const RegisterOptions& options, int64_t bytes, device::Use use, std::shared_ptr<const Memory> memory)
      : ledger_(options.device->ledger()),
        handle_(options.handle),
        thread_(options.thread),
        use_(use),
        bytes_(bytes),
        memory_(std::move(memory)) {
    ledger_.Charge(use_, bytes_);
  }
  ~RegisteredOwner() override {
    const absl::Status dropped = thread_->Call(
        "ncclMemFree", [handle = handle_, memory = memory_] { return Drop(*handle, *memory); }, kDropWithin);
    if (!dropped.ok()) LOG(WARNING) << "nccl: memory is not given back: " << dropped.message();
    ledger_.Credit(use_, bytes_);
  }

 private:
  static absl::Status Drop(CommHandle& handle, const Memory& memory) {
    absl::Status first;
    if (handle.Enter()) {
      if (memory.window != nullptr) {
        first.Update(NcclStatus(ncclCommWindowDeregister(handle.get(), memory.window), "ncclCommWindowDeregister"));
      }
      if (memory.registration != nullptr) {
        first.Update(NcclStatus(ncclCommDeregister(handle.get(), memory.registration), "ncclCommDeregister"));
      }
      handle.Leave();
    }
    first.Update(NcclStatus(ncclMemFree(memory.address), "ncclMemFree"));
    return first;
  }

  device::MemoryLedger& ledger_;
  const std::shared_ptr<CommHandle> handle_;
  const std::shared_ptr<NcclThread> thread_;
  const device::Use use_;
  const int64_t bytes_;
  const std::shared_ptr<const Memory> memory_;
};

// What every rank asks for, once all have said so; kNoRoom from one that got nothing.
absl::StatusOr<std::vector<int64_t>> GatherSizes(const RegisterOptions& options, int64_t mine) {
  comm::Store& store = options.notes->store();
  const auto key = [&](int rank) { return absl::StrCat("memory/", options.nth, "/", rank); };
  ZS_RETURN_IF_ERROR(store.Set(key(options.rank), absl::StrCat(mine)));
  std::vector<int64_t> sizes;
  for (int r = 0; r < options.world_size; ++r) {
    ZS_ASSIGN_OR_RETURN(const std::string value, store.Get(key(r), options.timeout));
    int64_t bytes = kNoRoom;
    if (!absl::SimpleAtoi(value, &bytes)) bytes = kNoRoom;
    sizes.push_back(bytes);
  }
  return sizes;
}

void Register(CommHandle& handle, Memory& memory, int64_t bytes, bool symmetric, const std::string& what) {
  if (!handle.Enter()) return;
  ncclResult_t result = ncclSuccess;
  if (symmetric) {
    result = ncclCommWindowRegister(handle.get(), memory.address, static_cast<size_t>(bytes), &memory.window,
                                    NCCL_WIN_COLL_SYMMETRIC);
    if (result != ncclSuccess) memory.window = nullptr;
  }
  if (memory.window == nullptr) {
    result = ncclCommRegister(handle.get(), memory.address, static_cast<size_t>(bytes), &memory.registration);
    if (result != ncclSuccess) memory.registration = nullptr;
  }
  handle.Leave();
  if (memory.window != nullptr) return;
  LOG(INFO) << "nccl: " << what << ", " << bytes << " bytes: "
            << (memory.registration != nullptr ? "registered by ncclCommRegister, not as a symmetric window"
                                               : "not registered: NCCL copies through its own buffers");
}

}  // namespace

absl::StatusOr<device::Buffer> AllocateRegistered(const RegisterOptions& options, int64_t bytes, device::Use use,
                                                  std::string_view what) {
  const auto memory = std::make_shared<Memory>();
  const std::shared_ptr<device::Event> zeroed = options.device->MakeEvent();
  const int64_t rounded = Rounded(std::max<int64_t>(bytes, 1));
  const absl::Status allocated = options.thread->Call(
      "ncclMemAlloc",
      [memory, rounded, zeroed, &device = *options.device, &stream = *options.stream] {
        ZS_RETURN_IF_ERROR(NcclStatus(ncclMemAlloc(&memory->address, static_cast<size_t>(rounded)), "ncclMemAlloc"));
        const device::Array all(reinterpret_cast<uint64_t>(memory->address), rounded, device::DType::kUint8);
        device.elementwise().Fill(stream, all, 0);
        stream.Record(*zeroed);
        return device.status();
      },
      options.timeout);
  const absl::StatusOr<std::vector<int64_t>> sizes = GatherSizes(options, allocated.ok() ? bytes : kNoRoom);
  if (!allocated.ok()) {
    return device::AllocationError(absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes: ", allocated.message())), what,
                                   options.device->ledger());
  }
  zeroed->Synchronize();
  auto owner = std::make_unique<RegisteredOwner>(options, bytes, use, memory);
  ZS_RETURN_IF_ERROR(sizes.status());
  bool one_size = true;
  for (size_t r = 0; r < sizes->size(); ++r) {
    one_size = one_size && (*sizes)[r] == bytes;
    if ((*sizes)[r] == kNoRoom) {
      return absl::ResourceExhaustedError(absl::StrCat("rank ", r, " has no memory for ", std::string(what)));
    }
  }
  ZS_RETURN_IF_ERROR(options.thread->Call(
      "ncclCommWindowRegister",
      [memory, rounded, one_size, handle = options.handle, name = std::string(what)] {
        Register(*handle, *memory, rounded, one_size, name);
        return absl::OkStatus();
      },
      options.timeout));
  return device::Buffer(reinterpret_cast<uint64_t>(memory->address), bytes, std::move(owner));
}

}  // namespace zeroshard::backends
