// Reads and writes of one file that are under way at once. Two ways to do them, one face: io_uring, and threads that call pread
// and pwrite where the kernel refuses io_uring.
//
// Used by one thread. Nothing is allocated after the queue is made.
//
// Example:
//   Transfer transfer;
//   queue->Submit({.write = true, .offset = 0, .memory = bytes, .bytes = 4096, .transfer = &transfer});
//   while (!transfer.done()) queue->Await();
//   if (transfer.error != 0) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace zeroshard::zero {

// How a caller follows what it asked for: pieces of one or several calls, awaited together. Lives until it is done.
struct Transfer {
  int pieces = 0;  // under way
  // Of the first piece that failed: errno, or kEndOfFile; 0 where none has. Where and how long.
  int error = 0;
  bool failed_write = false;
  int64_t failed_offset = 0;
  int64_t failed_bytes = 0;

  bool done() const { return pieces == 0; }
};

// Transfer::error of a read that came to the file's end.
inline constexpr int kEndOfFile = -1;

// What is read or written at once: no more than kMostPieceBytes.
struct FilePiece {
  bool write = false;
  int64_t offset = 0;
  std::byte* memory = nullptr;
  int64_t bytes = 0;
  Transfer* transfer = nullptr;
};

// Large enough for a drive's full speed, small enough that several are under way for one sub-group.
inline constexpr int64_t kMostPieceBytes = int64_t{1} << 20;
// Pieces under way at once.
inline constexpr int kQueueDepth = 32;

class FileQueue {
 public:
  virtual ~FileQueue() = default;

  // Begins a piece, whose transfer counts it until it has ended. Awaits another one first where kQueueDepth are under way.
  virtual void Submit(const FilePiece& piece) = 0;
  // Returns when a piece has ended; at once where none is under way.
  virtual void Await() = 0;
};

// `file`: an open descriptor, which outlives the queue. Errors: kUnavailable, with the kernel's words, where it refuses
// io_uring.
absl::StatusOr<std::unique_ptr<FileQueue>> MakeUringQueue(int file);
// `owner`: for whose account the threads work (device/our_thread.h). Errors: kResourceExhausted where there is no thread to be
// had.
absl::StatusOr<std::unique_ptr<FileQueue>> MakeThreadQueue(int file, const void* owner);

// What becomes of a piece of which `result` bytes were moved, or a negative errno. Gives true if it has ended; else what is
// left of it is to be begun again.
bool EndPiece(FilePiece& piece, int64_t result);

}  // namespace zeroshard::zero
