// ParallelFor: fixed stretches of a range, spread over the threads that oneDNN uses too.
//
// A stretch's bounds do not depend on the number of threads, so neither do results that are made stretch by stretch. With
// one thread it is a loop on the caller. Allocates nothing once the threads exist (the first call makes them).
//
// Example:
//   ParallelFor(threads, rows, /*grain=*/16, [&](int64_t first, int64_t last) { Normalize(x, first, last); });
#pragma once

#include <algorithm>
#include <cstdint>

namespace zeroshard::device {

// Makes `threads` the number that oneDNN and ParallelFor take on this thread.
void SetThreads(int threads);

namespace internal {
// Calls run(data, t, n) for t in [0, n), each on a thread of its own; n is `threads`, or fewer where the system limits it.
// Ask for the same number always: a team of another size is allocated anew.
void RunOnThreads(int threads, void (*run)(void* data, int thread, int threads), void* data);
}  // namespace internal

// Calls body(first, last) for stretches of `grain` that cover [0, count), each once. body must not throw.
template <class Body>
void ParallelFor(int threads, int64_t count, int64_t grain, Body&& body) {
  const int64_t stretches = (count + grain - 1) / grain;
  if (threads <= 1 || stretches <= 1) {
    for (int64_t i = 0; i < stretches; ++i) body(i * grain, std::min(count, (i + 1) * grain));
    return;
  }
  struct Shared {
    Body& body;
    int64_t count, grain, stretches;
  } shared{body, count, grain, stretches};
  internal::RunOnThreads(
      threads,
      [](void* data, int thread, int team) {
        Shared& s = *static_cast<Shared*>(data);
        const int64_t begin = s.stretches * thread / team, end = s.stretches * (thread + 1) / team;
        for (int64_t i = begin; i < end; ++i) s.body(i * s.grain, std::min(s.count, (i + 1) * s.grain));
      },
      &shared);
}

}  // namespace zeroshard::device
