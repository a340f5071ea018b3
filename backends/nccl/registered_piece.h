// One ncclMemAlloc: device memory that NCCL reaches directly, registered once for one communicator, and which parts of it are free.
//
// It is given back when nobody holds it any more, on the thread that calls NCCL; that is before its communicator goes.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::shared_ptr<RegisteredPiece> piece, RegisteredPiece::Make(options, 16 << 20));
//   ZS_ASSIGN_OR_RETURN(const bool window, piece->RegisterWindow());   // the others ask for theirs, too
//   std::optional<int64_t> offset = piece->Take(4096);
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/nccl_thread.h"
#include "zeroshard/device/free_ranges.h"
#include "zeroshard/device/memory_ledger.h"

namespace zeroshard::backends {

struct PieceOptions {
  device::MemoryLedger* ledger = nullptr;  // outlives the piece
  std::shared_ptr<CommHandle> handle;
  std::shared_ptr<NcclThread> thread;
  absl::Duration timeout;
  absl::Duration drop_within = absl::Seconds(10);  // where an abort of the communicator has to end before
};

class RegisteredPiece {
 public:
  // [bytes], in the ledger's granularity until somebody asks for parts of it (AddGranularity). Errors: NCCL's; kDeadlineExceeded.
  static absl::StatusOr<std::shared_ptr<RegisteredPiece>> Make(const PieceOptions& options, int64_t bytes);
  ~RegisteredPiece();
  RegisteredPiece(const RegisteredPiece&) = delete;
  RegisteredPiece& operator=(const RegisteredPiece&) = delete;

  // As a symmetric window, which is collective. Whether it is one, which NCCL may not have here. Errors: kDeadlineExceeded.
  absl::StatusOr<bool> RegisterWindow();
  // By ncclCommRegister; else not, which is logged. It is no window afterwards. Errors: kDeadlineExceeded.
  absl::Status RegisterAlone(std::string_view what);

  uint64_t address() const;
  // Offsets; see FreeRanges.
  std::optional<int64_t> Take(int64_t bytes);
  void Give(int64_t offset, int64_t bytes);

 private:
  struct Memory;  // may outlive whoever waits for NCCL's thread

  RegisteredPiece(const PieceOptions& options, int64_t bytes, std::shared_ptr<Memory> memory);
  static absl::Status Drop(CommHandle& handle, const Memory& memory, absl::Duration within);

  const PieceOptions options_;
  const int64_t bytes_;
  const std::shared_ptr<Memory> memory_;
  std::mutex mutex_;
  device::FreeRanges free_;  // from offset 0 on
};

}  // namespace zeroshard::backends
