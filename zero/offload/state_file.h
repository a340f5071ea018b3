// A file of one rank that holds what does not fit its memory: masters, moments, parameters. Nobody else sees it, and nothing is
// left of it: it has no name in its folder (O_TMPFILE, or unlinked as soon as it is made), so the kernel drops it with the
// process, whatever ended that; its bytes are allotted at once, so that a full disk is an error before training and not in the
// middle of it.
//
// Reads and writes go past the page cache (O_DIRECT) where the file system lets them, through io_uring where the kernel lets
// them, and through threads where not. Offsets, lengths and memory are multiples of kFileAlignmentBytes.
//
// Used by one thread at a time. Nothing is allocated after it is made, but for an error's text.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto file, StateFile::Create({.folder = "/nvme", .bytes = 8192}));
//   Transfer transfer;
//   file->Write(/*offset=*/4096, memory, 4096, transfer);
//   ...
//   ZS_RETURN_IF_ERROR(file->Wait(transfer));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/zero/offload/file_queue.h"

namespace zeroshard::zero {

// A page: no less than the logical block of any drive, which is what O_DIRECT asks for.
inline constexpr int64_t kFileAlignmentBytes = 4096;

struct StateFileOptions {
  std::string folder = {};
  int64_t bytes = 0;            // rounded up to kFileAlignmentBytes
  const void* owner = nullptr;  // for whose account its threads work (device/our_thread.h)
  // Tests: what a machine may lack.
  bool allow_uring = true;
  bool allow_direct = true;
};

class StateFile {
 public:
  // Reads as zeros. Errors: kInvalidArgument, naming the folder: what CheckStateFolder says, or that it has less room than
  // `bytes`.
  static absl::StatusOr<std::unique_ptr<StateFile>> Create(const StateFileOptions& options);
  // Waits for what is under way.
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Begin to move memory[0, bytes). It is touched by nobody else until `transfer` was waited for; one transfer may cover
  // several calls.
  void Read(int64_t offset, std::byte* memory, int64_t bytes, Transfer& transfer);
  void Write(int64_t offset, const std::byte* memory, int64_t bytes, Transfer& transfer);
  // Holds the caller until all of it is done, and makes `transfer` fit for use again. Errors: kDataLoss, naming folder, offset,
  // bytes and the system's words.
  absl::Status Wait(Transfer& transfer);

  int64_t bytes() const { return bytes_; }
  bool uses_uring() const { return uses_uring_; }
  bool is_direct() const { return is_direct_; }

 private:
  StateFile(std::string folder, int64_t bytes) : folder_(std::move(folder)), bytes_(bytes) {}
  absl::Status Open();
  absl::Status Allot();
  absl::Status ChooseWay(const StateFileOptions& options);
  absl::Status TryOut();
  void Begin(FilePiece piece, int64_t bytes);

  const std::string folder_;
  const int64_t bytes_;
  int file_ = -1;
  bool uses_uring_ = false;
  bool is_direct_ = false;
  std::unique_ptr<FileQueue> queue_;
};

}  // namespace zeroshard::zero
