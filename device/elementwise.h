// Elementwise kernels that every layer uses. All take the stream first, return at once and allocate nothing.
//
// Example:
//   device.elementwise().Accumulate(stream, bucket, shard);
#pragma once

#include "zeroshard/device/array.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device {

class Elementwise {
 public:
  virtual ~Elementwise() = default;

  // y = value, converted to y's dtype (any dtype).
  virtual void Fill(Stream& stream, Out y, double value) = 0;
  // y = x, the same dtype and number of elements.
  virtual void Copy(Stream& stream, In x, Out y) = 0;
  // y = x in y's dtype, round to nearest even; floats only. x and y may be the same memory where both have one size.
  virtual void Convert(Stream& stream, In x, Out y) = 0;
  // y = y + x. Floats; the sum is taken in fp32 (fp64 where y is fp64) and rounded once to y's dtype.
  virtual void Accumulate(Stream& stream, In x, InOut y) = 0;
  // y = factor * y. Floats; in fp32 (fp64 where y is fp64), rounded once.
  virtual void Scale(Stream& stream, InOut y, double factor) = 0;
};

}  // namespace zeroshard::device
