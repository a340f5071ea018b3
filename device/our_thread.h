// Marks a thread as one of this project's, and says for which rank it works: what it allocates is counted as that rank's own.
// Threads that libraries start are not marked.
//
// Example: first in the communicator's own thread.
//   OurThread::Begin(&device);       // the rank's Device stands for the rank
#pragma once

namespace zeroshard::device {

class OurThread {
 public:
  // `owner`: the rank's Device; null unmarks. It is compared, never looked through.
  static void Begin(const void* owner) { slot() = owner; }
  // Of the calling thread; null where it is not marked.
  static const void* owner() { return slot(); }

 private:
  static const void*& slot() {
    thread_local const void* value = nullptr;
    return value;
  }
};

}  // namespace zeroshard::device
