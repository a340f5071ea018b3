// Abseil's own count of who holds a status, compiled with ThreadSanitizer. The system's Abseil is not: there the sanitizer sees a
// status copied (in a header) and freed, but not that every copy was dropped before, and calls two ranks that drop one error a race.

#if defined(__SANITIZE_THREAD__)

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace absl {

// Takes the place of the library's function of this name, in every object of the program that this is linked into.
void Status::UnrefNonInlined(uintptr_t rep) {
  status_internal::StatusRep* shared = RepToPointer(rep);
  if (shared->ref.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
}

}  // namespace absl

#endif
