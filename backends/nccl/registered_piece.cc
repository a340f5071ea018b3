#include "zeroshard/backends/nccl/registered_piece.h"

#include <nccl.h>

#include <string>
#include <utility>

#include "glog/logging.h"
#include "zeroshard/backends/nccl/nccl_errors.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {

struct RegisteredPiece::Memory {
  void* address = nullptr;
  ncclWindow_t window = nullptr;
  void* registration = nullptr;
};

absl::StatusOr<std::shared_ptr<RegisteredPiece>> RegisteredPiece::Make(const PieceOptions& options, int64_t bytes) {
  const auto memory = std::make_shared<Memory>();
  ZS_RETURN_IF_ERROR(options.thread->Call(
      "ncclMemAlloc",
      [memory, bytes] { return NcclStatus(ncclMemAlloc(&memory->address, static_cast<size_t>(bytes)), "ncclMemAlloc"); },
      options.timeout));
  return std::shared_ptr<RegisteredPiece>(new RegisteredPiece(options, bytes, memory));
}

RegisteredPiece::RegisteredPiece(const PieceOptions& options, int64_t bytes, std::shared_ptr<Memory> memory)
    : options_(options), bytes_(bytes), memory_(std::move(memory)) {
  free_.AddPiece(0, bytes_);
  options_.ledger->AddGranularity(bytes_);
}

RegisteredPiece::~RegisteredPiece() {
  const absl::Duration within = options_.drop_within;
  // Twice as long: the thread, which waits for no longer, goes on.
  const absl::Status dropped = options_.thread->Call(
      "ncclMemFree", [handle = options_.handle, memory = memory_, within] { return Drop(*handle, *memory, within); },
      2 * within);
  if (!dropped.ok()) LOG(WARNING) << "nccl: memory is not given back: " << dropped.message();
  options_.ledger->AddGranularity(-bytes_);
}

absl::Status RegisteredPiece::Drop(CommHandle& handle, const Memory& memory, absl::Duration within) {
  absl::Status first;
  if (handle.Enter()) {
    if (memory.window != nullptr) {
      first.Update(NcclStatus(ncclCommWindowDeregister(handle.get(), memory.window), "ncclCommWindowDeregister"));
    }
    if (memory.registration != nullptr) {
      first.Update(NcclStatus(ncclCommDeregister(handle.get(), memory.registration), "ncclCommDeregister"));
    }
    handle.Leave();
  } else if (!handle.AwaitEnd(within)) {
    return absl::DeadlineExceededError("ncclCommAbort has not come back, and may hold it");
  }
  first.Update(NcclStatus(ncclMemFree(memory.address), "ncclMemFree"));
  return first;
}

absl::StatusOr<bool> RegisteredPiece::RegisterWindow() {
  ZS_RETURN_IF_ERROR(options_.thread->Call(
      "ncclCommWindowRegister",
      [memory = memory_, bytes = bytes_, handle = options_.handle] {
        if (!handle->Enter()) return absl::OkStatus();
        if (ncclCommWindowRegister(handle->get(), memory->address, static_cast<size_t>(bytes), &memory->window,
                                   NCCL_WIN_COLL_SYMMETRIC) != ncclSuccess) {
          memory->window = nullptr;
        }
        handle->Leave();
        return absl::OkStatus();
      },
      options_.timeout));
  return memory_->window != nullptr;
}

absl::Status RegisteredPiece::RegisterAlone(std::string_view what) {
  return options_.thread->Call(
      "ncclCommRegister",
      [memory = memory_, bytes = bytes_, handle = options_.handle, name = std::string(what)] {
        if (!handle->Enter()) return absl::OkStatus();
        absl::Status dropped;
        if (memory->window != nullptr) {
          dropped = NcclStatus(ncclCommWindowDeregister(handle->get(), memory->window), "ncclCommWindowDeregister");
        }
        memory->window = nullptr;
        if (ncclCommRegister(handle->get(), memory->address, static_cast<size_t>(bytes), &memory->registration) !=
            ncclSuccess) {
          memory->registration = nullptr;
        }
        handle->Leave();
        LOG(INFO) << "nccl: memory for " << name << ", " << bytes << " bytes: "
                  << (memory->registration != nullptr ? "registered by ncclCommRegister, not as a symmetric window"
                                                      : "not registered: NCCL copies through its own buffers");
        return dropped;
      },
      options_.timeout);
}

uint64_t RegisteredPiece::address() const { return reinterpret_cast<uint64_t>(memory_->address); }

std::optional<int64_t> RegisteredPiece::Take(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<uint64_t> offset = free_.Take(bytes);
  if (!offset) return std::nullopt;
  return static_cast<int64_t>(*offset);
}

void RegisteredPiece::Give(int64_t offset, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.Give(static_cast<uint64_t>(offset), bytes);
}

}  // namespace zeroshard::backends
