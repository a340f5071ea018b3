// gloo/common/memory.h: a header that Gloo's own <gloo/transport/tcp/pair.h> includes and that Debian's libgloo-dev leaves out.
//
// Only the layout matters: the library was compiled with these three templates, each of which boxes one smart pointer, and
// everything that they do happens inside the library. gloo_abi_test holds the sizes that follow from them against those that the
// library allocates. Where libgloo-dev has the header, the two are the same to the linker.
#pragma once

#include <memory>

namespace gloo {

template <class T>
class NonOwningPtr;
template <class T>
class ShareableNonOwningPtr;

// A reference that lapses when its object is destroyed.
template <class T>
class WeakNonOwningPtr final {
 public:
  WeakNonOwningPtr() = default;
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>& object) : pointer_(object.pointer_) {}

 private:
  friend class NonOwningPtr<T>;
  std::weak_ptr<T> pointer_;
};

// Holds the object's destruction up, briefly.
template <class T>
class NonOwningPtr final {
 public:
  NonOwningPtr() = default;
  // Empty where the object is gone.
  explicit NonOwningPtr(const WeakNonOwningPtr<T>& reference) : pointer_(reference.pointer_.lock()) {}
  explicit operator bool() const noexcept { return pointer_ != nullptr; }

 private:
  std::shared_ptr<T> pointer_;
};

// The object's own handle on itself; the library alone makes and destroys them.
template <class T>
class ShareableNonOwningPtr final {
 private:
  friend class WeakNonOwningPtr<T>;
  std::shared_ptr<T> pointer_;
};

}  // namespace gloo
