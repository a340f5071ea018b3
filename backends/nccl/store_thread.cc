#include "zeroshard/backends/nccl/store_thread.h"

#include <chrono>
#include <utility>

namespace zeroshard::backends {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{100};

}  // namespace

StoreThread::StoreThread(std::function<void()> look) : look_(std::move(look)), thread_([this] { Run(); }) {}

StoreThread::~StoreThread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool StoreThread::Do(std::function<void()> work, absl::Duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  work_ = std::move(work);
  const int mine = ++asked_;
  changed_.notify_all();
  return changed_.wait_for(lock, absl::ToChronoNanoseconds(patience), [this, mine] { return done_ == mine; });
}

void StoreThread::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait_for(lock, kBetweenLooks, [this] { return stop_ || work_ != nullptr; });
    if (stop_) return;
    const std::function<void()> work = work_ == nullptr ? look_ : std::exchange(work_, nullptr);
    const int number = asked_;
    lock.unlock();
    work();
    lock.lock();
    done_ = number;
    changed_.notify_all();
  }
}

}  // namespace zeroshard::backends
