#include "zeroshard/zero/offload/host_thread.h"

#include <system_error>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/our_thread.h"

namespace zeroshard::zero {

absl::StatusOr<std::unique_ptr<HostThread>> HostThread::Create(const void* owner) {
  auto made = absl::WrapUnique(new HostThread());
  try {
    made->thread_ = std::thread([thread = made.get(), owner] { thread->Run(owner); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread for offloaded state: ", error.what()));
  }
  return made;
}

HostThread::~HostThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  posted_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HostThread::Post(Job run, void* self, int64_t argument) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ran_.wait(lock, [this] { return count_ < kMostJobs; });
    jobs_[(first_ + count_) % kMostJobs] = {run, self, argument};
    ++count_;
  }
  posted_.notify_one();
}

void HostThread::Drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  ran_.wait(lock, [this] { return count_ == 0; });
}

void HostThread::Run(const void* owner) {
  device::OurThread::Begin(owner);
  while (true) {
    Posted job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      posted_.wait(lock, [this] { return ending_ || count_ > 0; });
      if (count_ == 0) return;
      job = jobs_[first_];
    }
    job.run(job.self, job.argument);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      first_ = (first_ + 1) % kMostJobs;
      --count_;
    }
    ran_.notify_all();
  }
}

}  // namespace zeroshard::zero
