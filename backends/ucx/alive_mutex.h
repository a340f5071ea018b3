// A mutex in memory that processes share, by which they know whether the thread that holds it lives: the system marks it when that
// thread ends without letting go, however it does (a robust mutex, futex(2)).
//
// Example:
//   MakeAliveMutex(block.alive);                     // by whoever is to be watched,
//   CHECK_EQ(pthread_mutex_lock(&block.alive), 0);   // on the thread that holds it for as long as it lives
//   ...
//   if (!HeldByTheLiving(block.alive)) ...           // by the others
#pragma once

#include <pthread.h>

namespace zeroshard::backends {

void MakeAliveMutex(pthread_mutex_t& mutex);

// Whether some living thread holds it. One that nobody does is left free for others to find. Not on the thread that holds it.
bool HeldByTheLiving(pthread_mutex_t& mutex);

}  // namespace zeroshard::backends
