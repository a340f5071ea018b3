// A thread of a rank for work on host memory and files, so that it goes on while the rank's own thread computes or
// communicates. Jobs run in the order in which they were posted. Nothing is allocated after it is made.
//
// A job's end is known as any stream's work is: by an event on which the poster called Expect, and which the job records.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto thread, HostThread::Create(&device));
//   done->Expect();
//   thread->Post([](void* self, int64_t group) { static_cast<Update*>(self)->Run(group); }, this, 3);
//   compute.Wait(*done);
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"

namespace zeroshard::zero {

class HostThread {
 public:
  // Posted and not yet run.
  static constexpr int kMostJobs = 64;
  using Job = void (*)(void* self, int64_t argument);

  // `owner`: for whose account it works (device/our_thread.h). Errors: kResourceExhausted where there is no thread to be had.
  static absl::StatusOr<std::unique_ptr<HostThread>> Create(const void* owner);
  // Runs what was posted, and ends.
  ~HostThread();
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  // Returns at once, or when one of kMostJobs has begun. `self` lives until the job has run.
  void Post(Job run, void* self, int64_t argument);
  // Returns when all that was posted has run. From any thread but its own.
  void Drain();

 private:
  struct Posted {
    Job run = nullptr;
    void* self = nullptr;
    int64_t argument = 0;
  };

  HostThread() = default;
  void Run(const void* owner);

  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable ran_;
  std::array<Posted, kMostJobs> jobs_;  // a ring; the one that runs is in it
  int first_ = 0;
  int count_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace zeroshard::zero
