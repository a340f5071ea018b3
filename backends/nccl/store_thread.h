// A thread that talks to the Store for those who must not wait for it: a rank 0 that is silent answers a call after many seconds, or not
// at all.
//
// Example:
//   StoreThread store([&] { news.Look(); });
//   if (!store.Do([&notes, cause] { notes.GiveUp(cause); }, absl::Seconds(2))) ... it does not answer; what was asked goes on
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace zeroshard::backends {

class StoreThread {
 public:
  // `look` is called now and then, while nothing else is to be done.
  explicit StoreThread(std::function<void()> look);
  // Waits for the call of the Store that is under way.
  ~StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  // Whether `work` was done, on the thread, within `patience`. Where not it may still be, and so owns what it uses; the next that asks takes
  // the place of what has not begun by then. For one caller at a time.
  bool Do(std::function<void()> work, absl::Duration patience);

 private:
  void Run();

  const std::function<void()> look_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  int asked_ = 0, done_ = 0;  // the number of the latest
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace zeroshard::backends
