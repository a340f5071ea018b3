// CpuElementwise: the elementwise kernels on host memory, for device/cpu and device/late.
//
// Any vector width gives the same bits, in vector bodies and tails alike.
//
// Example:
//   CpuElementwise elementwise(/*threads=*/1);
//   elementwise.Accumulate(stream, bucket, shard);
#pragma once

#include "zeroshard/device/elementwise.h"

namespace zeroshard::device {

class CpuElementwise final : public Elementwise {
 public:
  explicit CpuElementwise(int threads) : threads_(threads) {}

  void Fill(Stream& stream, Out y, double value) override;
  void Copy(Stream& stream, In x, Out y) override;
  void Convert(Stream& stream, In x, Out y) override;
  void Accumulate(Stream& stream, In x, InOut y) override;
  void Scale(Stream& stream, InOut y, double factor) override;

 private:
  const int threads_;
};

}  // namespace zeroshard::device
