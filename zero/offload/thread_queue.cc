// FileQueue on threads that call pread and pwrite.

#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/our_thread.h"
#include "zeroshard/zero/offload/file_queue.h"

namespace zeroshard::zero {
namespace {

// One that reads while another one writes.
constexpr int kThreads = 2;

class ThreadQueue final : public FileQueue {
 public:
  ThreadQueue(int file, const void* owner) : file_(file), owner_(owner) {}
  ~ThreadQueue() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    begun_.notify_all();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  absl::Status Start() {
    try {
      for (std::thread& thread : threads_) thread = std::thread([this] { Run(); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat("no thread for reads and writes of a file: ", error.what()));
    }
    return absl::OkStatus();
  }

  void Submit(const FilePiece& piece) override {
    while (under_way_ == kQueueDepth) Await();
    ++under_way_;
    ++piece.transfer->pieces;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_[(first_waiting_ + waiting_count_++) % kQueueDepth] = piece;
    }
    begun_.notify_one();
  }

  // Transfers are touched on the caller's thread alone.
  void Await() override {
    if (under_way_ == 0) return;
    Ended ended;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      ended_.wait(lock, [this] { return ended_count_ > 0; });
      ended = ended_list_[--ended_count_];
    }
    --under_way_;
    if (EndPiece(ended.piece, ended.result)) return;
    --ended.piece.transfer->pieces;
    Submit(ended.piece);
  }

 private:
  struct Ended {
    FilePiece piece;
    int64_t result = 0;
  };

  void Run() {
    device::OurThread::Begin(owner_);
    while (true) {
      Ended ended;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        begun_.wait(lock, [this] { return ending_ || waiting_count_ > 0; });
        if (waiting_count_ == 0) return;
        ended.piece = waiting_[first_waiting_];
        first_waiting_ = (first_waiting_ + 1) % kQueueDepth;
        --waiting_count_;
      }
      const FilePiece& piece = ended.piece;
      const size_t bytes = static_cast<size_t>(piece.bytes);
      ended.result =
          piece.write ? pwrite(file_, piece.memory, bytes, piece.offset) : pread(file_, piece.memory, bytes, piece.offset);
      if (ended.result < 0) ended.result = -errno;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        ended_list_[ended_count_++] = ended;
      }
      ended_.notify_one();
    }
  }

  const int file_;
  const void* const owner_;
  int under_way_ = 0;  // of the caller's thread
  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::array<FilePiece, kQueueDepth> waiting_;  // a ring
  int first_waiting_ = 0;
  int waiting_count_ = 0;
  std::array<Ended, kQueueDepth> ended_list_;
  int ended_count_ = 0;
  std::array<std::thread, kThreads> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FileQueue>> MakeThreadQueue(int file, const void* owner) {
  auto queue = std::make_unique<ThreadQueue>(file, owner);
  const absl::Status started = queue->Start();
  if (!started.ok()) return started;
  return queue;
}

}  // namespace zeroshard::zero
