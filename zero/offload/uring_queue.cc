// FileQueue on io_uring.

#include <liburing.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/vendor_scope.h"
#include "zeroshard/zero/offload/file_queue.h"

namespace zeroshard::zero {
namespace {

class UringQueue final : public FileQueue {
 public:
  explicit UringQueue(int file) : file_(file) {
    for (int i = 0; i < kQueueDepth; ++i) free_[free_count_++] = i;
  }
  ~UringQueue() override {
    if (!made_) return;
    while (free_count_ < kQueueDepth) Await();
    io_uring_queue_exit(&ring_);
  }

  absl::Status Make() {
    const device::VendorScope scope;
    const int result = io_uring_queue_init(kQueueDepth, &ring_, 0);
    if (result < 0) return absl::UnavailableError(absl::StrCat("io_uring: ", std::strerror(-result)));
    made_ = true;
    return absl::OkStatus();
  }

  void Submit(const FilePiece& piece) override {
    while (free_count_ == 0) Await();
    const int slot = free_[--free_count_];
    slots_[slot] = piece;
    ++piece.transfer->pieces;
    Begin(slot);
  }

  void Await() override {
    if (free_count_ == kQueueDepth) return;
    io_uring_cqe* done = nullptr;
    int result = 0;
    do {
      result = io_uring_wait_cqe(&ring_, &done);
    } while (result == -EINTR || result == -EAGAIN);
    if (result < 0) return FailAll(result);
    const int slot = static_cast<int>(io_uring_cqe_get_data64(done));
    const int moved = done->res;
    io_uring_cqe_seen(&ring_, done);
    if (EndPiece(slots_[slot], moved)) {
      free_[free_count_++] = slot;
    } else {
      Begin(slot);
    }
  }

 private:
  void Begin(int slot) {
    // There are as many entries as slots, and each is handed over at once.
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    const FilePiece& piece = slots_[slot];
    const unsigned bytes = static_cast<unsigned>(piece.bytes);
    if (piece.write) {
      io_uring_prep_write(entry, file_, piece.memory, bytes, static_cast<uint64_t>(piece.offset));
    } else {
      io_uring_prep_read(entry, file_, piece.memory, bytes, static_cast<uint64_t>(piece.offset));
    }
    io_uring_sqe_set_data64(entry, static_cast<uint64_t>(slot));
    int result = 0;
    do {
      result = io_uring_submit(&ring_);
    } while (result == -EINTR || result == -EAGAIN || result == -EBUSY);
    if (result >= 0) return;
    EndPiece(slots_[slot], result);
    free_[free_count_++] = slot;
  }

  // The ring itself is broken: nothing more will come of what is under way.
  void FailAll(int result) {
    std::array<bool, kQueueDepth> is_free = {};
    for (int i = 0; i < free_count_; ++i) is_free[free_[i]] = true;
    for (int slot = 0; slot < kQueueDepth; ++slot) {
      if (is_free[slot]) continue;
      EndPiece(slots_[slot], result);
      free_[free_count_++] = slot;
    }
  }

  const int file_;
  bool made_ = false;
  io_uring ring_ = {};
  std::array<FilePiece, kQueueDepth> slots_;
  std::array<int, kQueueDepth> free_;
  int free_count_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FileQueue>> MakeUringQueue(int file) {
#ifdef __SANITIZE_THREAD__
  // It does not see that one ring's memory was given back before it became another's.
  return absl::UnavailableError("io_uring: not under ThreadSanitizer");
#endif
  auto queue = std::make_unique<UringQueue>(file);
  const absl::Status made = queue->Make();
  if (!made.ok()) return made;
  return queue;
}

}  // namespace zeroshard::zero
