// Marks a stretch of one thread as a library's: what is allocated inside is counted as the vendor's, not as ours.
//
// Example:
//   { VendorScope scope; dnnl_primitive_execute(...); }
#pragma once

namespace zeroshard::device {

class VendorScope {
 public:
  VendorScope() { ++depth(); }
  ~VendorScope() { --depth(); }
  VendorScope(const VendorScope&) = delete;
  VendorScope& operator=(const VendorScope&) = delete;

  // Whether this thread is inside a scope.
  static bool Active() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int value = 0;
    return value;
  }
};

}  // namespace zeroshard::device
