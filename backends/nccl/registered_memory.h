// Device memory that NCCL reaches directly, in a few pieces (registered_piece.h), of which each is registered once.
//
// Note: Where memory lies. A symmetric window has one size on all ranks, and what ranks have in it lies at one offset (NCCL's user
// guide, API flags, NCCL_WIN_COLL_SYMMETRIC). So they tell each other, through the Store, what each asks for, and where it would take
// it; where all say the same they take it there, and else a new piece. What ranks ask for in unlike sizes has a piece of its own, which
// is no window. An empty piece is given back.
//
// Example: on every rank, in the same order,
//   RegisteredMemory memory({.device = &device, ...});
//   ZS_ASSIGN_OR_RETURN(Buffer scratch, memory.Allocate(bytes, Use::kCommunication, "scratch"));
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/backends/nccl/comm_handle.h"
#include "zeroshard/backends/nccl/group_notes.h"
#include "zeroshard/backends/nccl/nccl_thread.h"
#include "zeroshard/backends/nccl/registered_piece.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"

namespace zeroshard::backends {

struct RegisterOptions {
  device::Device* device = nullptr;
  device::Stream* stream = nullptr;  // of the thread that calls NCCL
  std::shared_ptr<CommHandle> handle;
  std::shared_ptr<NcclThread> thread;
  GroupNotes* notes = nullptr;
  int rank = 0;
  int world_size = 1;
  // Pieces are as large, or as an allocation that is larger; 0: each allocation is a piece, so that the doubles see where it ends.
  int64_t piece_bytes = 0;
  absl::Duration timeout;
};

class RegisteredMemory {
 public:
  explicit RegisteredMemory(const RegisterOptions& options) : options_(options) {}

  // Collective; sizes may differ. Zeroed memory, filed under `use`. The Buffer is dropped before the communicator, and may outlive this.
  // Errors: kResourceExhausted, with the ledger's table, on every rank where one has no room; kDeadlineExceeded.
  absl::StatusOr<device::Buffer> Allocate(int64_t bytes, device::Use use, std::string_view what);

 private:
  // A part of a piece; none where `piece` is null.
  struct Part {
    std::shared_ptr<RegisteredPiece> piece = nullptr;
    int64_t number = -1;  // of the piece, the same on all ranks; only of those that have been there before
    int64_t offset = 0;
  };
  class Owner;

  Part TakeFromPieces(int64_t bytes);
  absl::StatusOr<Part> TakeNewPiece(int64_t bytes, bool symmetric, std::string_view what);
  // As a window on all ranks, or on none: NCCL would carry the same call in two ways. Collective.
  absl::Status Register(RegisteredPiece& piece, bool symmetric, std::string_view what);
  // What every rank says, once all have; each as `parse` reads it.
  template <class T>
  absl::StatusOr<std::vector<T>> Tell(const char* about, const std::string& mine,
                                      absl::StatusOr<T> (*parse)(int rank, std::string_view value));
  absl::Status Zero(const Part& part, int64_t bytes);

  const RegisterOptions options_;
  int64_t allocations_ = 0;
  int64_t windows_ = 0;
  std::map<int64_t, std::weak_ptr<RegisteredPiece>> pieces_;  // symmetric ones, by number
};

}  // namespace zeroshard::backends
