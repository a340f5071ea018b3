#include "zeroshard/backends/ucx/alive_mutex.h"

#include <cerrno>

#include "glog/logging.h"

namespace zeroshard::backends {

void MakeAliveMutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  CHECK_EQ(pthread_mutex_init(&mutex, &attributes), 0);
  pthread_mutexattr_destroy(&attributes);
}

// Made consistent, since of one that is marked for good glibc's trylock (2.36) keeps the lock of whoever asks next, so that a third
// finds it held for ever.
bool HeldByTheLiving(pthread_mutex_t& mutex) {
  const int got = pthread_mutex_trylock(&mutex);
  if (got == EOWNERDEAD) pthread_mutex_consistent(&mutex);
  if (got == 0 || got == EOWNERDEAD) pthread_mutex_unlock(&mutex);
  return got == EBUSY;
}

}  // namespace zeroshard::backends
