#include "zeroshard/device/cpu/parallel.h"

#include "zeroshard/device/vendor_scope.h"

// Of libgomp, which Debian's oneDNN runs on. Called by name, so that no compiler brings an OpenMP runtime of its own, whose
// threads would contend with oneDNN's.
extern "C" {
void omp_set_num_threads(int threads);
int omp_get_thread_num(void);
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

void RunOnThreads(int threads, void (*run)(void* data, int thread), void* data) {
  struct Call {
    void (*run)(void*, int);
    void* data;
  } call{run, data};
  VendorScope scope;
  GOMP_parallel(
      [](void* self) {
        const Call& c = *static_cast<Call*>(self);
        c.run(c.data, omp_get_thread_num());
      },
      &call, static_cast<unsigned>(threads), 0);
}

}  // namespace internal
}  // namespace zeroshard::device
