// A typed stretch of a device's memory: where it starts, how many elements, of which type.
//
// An Array owns nothing and is not a pointer: outside device/ nobody looks through it. It is copied by value, sliced, and
// handed to kernels and collectives, whose parameters In, Out and InOut declare what they do to it.
//
// Example:
//   Array flat = buffer.array(DType::kFloat32);   // all of the buffer
//   Array shard = flat.Slice(rank * count, count);
//   elementwise.Accumulate(stream, /*x=*/bucket, /*y=*/shard);
#pragma once

#include <cstdint>

#include "zeroshard/device/dtype.h"

namespace zeroshard::device {

class Array {
 public:
  constexpr Array() = default;
  constexpr Array(uint64_t address, int64_t elements, DType dtype) : address_(address), elements_(elements), dtype_(dtype) {}

  // Where it starts, in the device's own address space: compared and offset, never dereferenced outside device/.
  constexpr uint64_t address() const { return address_; }
  constexpr int64_t elements() const { return elements_; }
  constexpr DType dtype() const { return dtype_; }
  constexpr int64_t bytes() const { return elements_ * SizeOf(dtype_); }
  constexpr bool empty() const { return elements_ == 0; }

  // [count] elements from `first` on. The caller keeps them inside.
  constexpr Array Slice(int64_t first, int64_t count) const {
    return Array(address_ + static_cast<uint64_t>(first * SizeOf(dtype_)), count, dtype_);
  }

  // The same bytes as elements of another type; a rest that fills no element is left out.
  constexpr Array As(DType dtype) const { return Array(address_, bytes() / SizeOf(dtype), dtype); }

  friend constexpr bool operator==(const Array&, const Array&) = default;

 private:
  uint64_t address_ = 0;
  int64_t elements_ = 0;
  DType dtype_ = DType::kFloat32;
};

// What an operation does to an Array that it is handed.
enum class AccessMode : uint8_t { kRead = 1, kWrite = 2, kReadWrite = 3 };

struct In {
  constexpr In() = default;
  constexpr In(const Array& a) : array(a) {}  // NOLINT(google-explicit-constructor): reads as the array itself
  Array array;
};
struct Out {
  constexpr Out() = default;
  constexpr Out(const Array& a) : array(a) {}  // NOLINT(google-explicit-constructor)
  Array array;
};
struct InOut {
  constexpr InOut() = default;
  constexpr InOut(const Array& a) : array(a) {}  // NOLINT(google-explicit-constructor)
  Array array;
};

}  // namespace zeroshard::device
