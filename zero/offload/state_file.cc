#include "zeroshard/zero/offload/state_file.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/offload/state_folder.h"

namespace zeroshard::zero {
namespace {

// A name in the folder for as long as it takes to open it and to take it away: for file systems without O_TMPFILE.
int OpenNamed(const std::string& folder) {
  static std::atomic<int> made = 0;
  const std::string path = absl::StrCat(folder, "/.zeroshard-offload-", getpid(), "-", made.fetch_add(1));
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0) unlink(path.c_str());
  return file;
}

int64_t FreeBytes(int file) {
  struct statvfs room = {};
  if (fstatvfs(file, &room) != 0) return 0;
  return static_cast<int64_t>(room.f_bavail) * static_cast<int64_t>(room.f_frsize);
}

bool SetDirect(int file, bool direct) {
  const int flags = fcntl(file, F_GETFL);
  return flags >= 0 && fcntl(file, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateFile>> StateFile::Create(const StateFileOptions& options) {
  ZS_RETURN_IF_ERROR(CheckStateFolder(options.folder));
  const int64_t bytes = (options.bytes + kFileAlignmentBytes - 1) / kFileAlignmentBytes * kFileAlignmentBytes;
  std::unique_ptr<StateFile> file(new StateFile(options.folder, bytes));
  ZS_RETURN_IF_ERROR(file->Open());
  ZS_RETURN_IF_ERROR(file->Allot());
  ZS_RETURN_IF_ERROR(file->ChooseWay(options));
  return file;
}

StateFile::~StateFile() {
  queue_.reset();
  if (file_ >= 0) close(file_);
}

absl::Status StateFile::Open() {
  file_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0) file_ = OpenNamed(folder_);
  return file_ < 0 ? StateFolderError(folder_, absl::StrCat("no file can be made in it: ", std::strerror(errno)))
                   : absl::OkStatus();
}

// Before O_DIRECT: a file system without fallocate gets a byte written into each block.
absl::Status StateFile::Allot() {
  if (bytes_ == 0) return absl::OkStatus();
  const int64_t room = FreeBytes(file_);
  int error = bytes_ > room ? ENOSPC : 0;
  while (error == 0 || error == EINTR) {
    error = posix_fallocate(file_, 0, bytes_);
    if (error == 0) return absl::OkStatus();
  }
  if (error == ENOSPC || error == EFBIG || error == EDQUOT) {
    return absl::InvalidArgumentError(absl::StrCat("offload folder ", folder_, ": this rank's file takes ", bytes_,
                                                   " bytes, ", room, " are free (", std::strerror(error),
                                                   "); make room, name another folder, or offload less"));
  }
  return StateFolderError(folder_, absl::StrCat("cannot allot ", bytes_, " bytes: ", std::strerror(error)));
}

// The best way that works: tried out on the file itself, since kernels and file systems refuse late.
absl::Status StateFile::ChooseWay(const StateFileOptions& options) {
  absl::Status tried;
  for (const bool uring : {true, false}) {
    if (uring && !options.allow_uring) continue;
    absl::StatusOr<std::unique_ptr<FileQueue>> queue = uring ? MakeUringQueue(file_) : MakeThreadQueue(file_, options.owner);
    if (!queue.ok()) {
      tried = queue.status();
      LOG_IF(WARNING, uring) << "offload to " << folder_ << " goes through threads: " << tried.message();
      continue;
    }
    queue_ = *std::move(queue);
    uses_uring_ = uring;
    for (const bool direct : {true, false}) {
      if (direct && !options.allow_direct) continue;
      if (!SetDirect(file_, direct)) continue;
      is_direct_ = direct;
      tried = TryOut();
      if (tried.ok()) return tried;
    }
  }
  return tried;
}

absl::Status StateFile::TryOut() {
  if (bytes_ == 0) return absl::OkStatus();
  const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(kFileAlignmentBytes, kFileAlignmentBytes),
                                                         std::free);
  if (page == nullptr) return absl::ResourceExhaustedError("no memory for a page");
  auto* bytes = static_cast<std::byte*>(page.get());
  std::memset(bytes, 0, kFileAlignmentBytes);
  Transfer transfer;
  Write(0, bytes, kFileAlignmentBytes, transfer);
  ZS_RETURN_IF_ERROR(Wait(transfer));
  Read(0, bytes, kFileAlignmentBytes, transfer);
  return Wait(transfer);
}

void StateFile::Read(int64_t offset, std::byte* memory, int64_t bytes, Transfer& transfer) {
  Begin({.write = false, .offset = offset, .memory = memory, .transfer = &transfer}, bytes);
}

void StateFile::Write(int64_t offset, const std::byte* memory, int64_t bytes, Transfer& transfer) {
  Begin({.write = true, .offset = offset, .memory = const_cast<std::byte*>(memory), .transfer = &transfer}, bytes);
}

void StateFile::Begin(FilePiece piece, int64_t bytes) {
  DCHECK_EQ((piece.offset | bytes) % kFileAlignmentBytes, 0);
  DCHECK_LE(piece.offset + bytes, bytes_);
  while (bytes > 0) {
    piece.bytes = std::min(bytes, kMostPieceBytes);
    queue_->Submit(piece);
    piece.offset += piece.bytes;
    piece.memory += piece.bytes;
    bytes -= piece.bytes;
  }
}

absl::Status StateFile::Wait(Transfer& transfer) {
  while (!transfer.done()) queue_->Await();
  const Transfer ended = std::exchange(transfer, Transfer{});
  if (ended.error == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(ended.failed_write ? "write" : "read", " of ", ended.failed_bytes,
                                          " bytes at offset ", ended.failed_offset, " of the offload file in ", folder_,
                                          ": ",
                                          ended.error == kEndOfFile ? "the file ends there" : std::strerror(ended.error)));
}

}  // namespace zeroshard::zero
