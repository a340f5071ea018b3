// CudaElementwise: the elementwise kernels of device/cuda, with the bits of device/cpu's.
//
// Example:
//   CudaElementwise elementwise;
//   elementwise.Accumulate(stream, bucket, shard);      // a CudaStream
#pragma once

#include "zeroshard/device/elementwise.h"

namespace zeroshard::device::cuda {

class CudaElementwise final : public Elementwise {
 public:
  void Fill(Stream& stream, device::Out y, double value) override;
  void Copy(Stream& stream, device::In x, device::Out y) override;
  void Convert(Stream& stream, device::In x, device::Out y) override;
  void Accumulate(Stream& stream, device::In x, device::InOut y) override;
  void Scale(Stream& stream, device::InOut y, double factor) override;
};

}  // namespace zeroshard::device::cuda
