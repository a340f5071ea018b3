// Memory that is written soon is brought while nobody waits for it.
//
// Example:
//   PrefetchToWrite(slots[next]);
#pragma once

#include <cstddef>

namespace zeroshard::device {

// Begins to bring all lines of `object`.
template <class T>
void PrefetchToWrite(const T& object) {
  constexpr size_t kLine = 64;
  const char* const first = reinterpret_cast<const char*>(&object);
  for (size_t at = 0; at < sizeof(T); at += kLine) __builtin_prefetch(first + at, 1);
}

}  // namespace zeroshard::device
