#include "zeroshard/device/cpu/parallel.h"

#include "zeroshard/device/our_thread.h"

// Of libgomp, which Debian's oneDNN runs on. Called by name, so that no compiler brings an OpenMP runtime of its own, whose
// threads would contend with oneDNN's.
extern "C" {
void omp_set_num_threads(int threads);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned flags);
}

namespace zeroshard::device {

void SetThreads(int threads) {
  thread_local int set = 0;
  if (set == threads) return;
  omp_set_num_threads(threads);
  set = threads;
}

namespace internal {

void RunOnThreads(int threads, void (*run)(void* data, int thread, int threads), void* data) {
  struct Call {
    void (*run)(void*, int, int);
    void* data;
    const void* owner;  // what our kernels allocate on libgomp's threads is the caller's
  } call{run, data, OurThread::owner()};
  GOMP_parallel(
      [](void* self) {
        const Call& c = *static_cast<Call*>(self);
        const void* const before = OurThread::owner();
        OurThread::Begin(c.owner);
        c.run(c.data, omp_get_thread_num(), omp_get_num_threads());
        OurThread::Begin(before);
      },
      &call, static_cast<unsigned>(threads), 0);
}

}  // namespace internal
}  // namespace zeroshard::device
