// CudaStream: a Stream of device/cuda, one of CUDA's.
//
// Communication's has the highest priority: its few blocks are let in before the products' many.
//
// Example: what a kernel's launch looks like from a Device's side.
//   CudaStream& on = CudaStream::Of(stream);
//   on.Keep(Accumulate(on.native(), x.array, y.array), "accumulate");
#pragma once

#include <cuda_runtime_api.h>

#include "zeroshard/device/cuda/cuda_errors.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device::cuda {

class CudaStream final : public Stream {
 public:
  // Of device `ordinal`. `device` and `errors` outlive it.
  CudaStream(Device& device, int ordinal, StreamKind kind, CudaErrors& errors);
  // What is queued runs to its end.
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // `stream` is device/cuda's.
  static CudaStream& Of(Stream& stream) { return static_cast<CudaStream&>(stream); }

  // CUDA's handle; this thread's current device becomes the stream's, as a launch on it wants. Any other call wants it, too: a thread's
  // first call makes a context of some 500 MiB on whichever device is its current one, which is device 0 where nobody has said.
  cudaStream_t native();
  // Keeps the error of something that was done on native().
  void Keep(cudaError_t error, const char* doing) { errors_.Keep(error, doing); }
  CudaErrors& errors() { return errors_; }

  Device& device() override { return device_; }
  StreamKind kind() const override { return kind_; }
  void Record(Event& event) override;
  void Wait(const Event& event) override;
  void Synchronize() override;
  // Only the doubles take it; on a GPU it is an error, which the device keeps.
  void Enqueue(const Operation& operation) override;
  void Stamp(int64_t& time) override;

 private:
  Device& device_;
  const int ordinal_;
  const StreamKind kind_;
  CudaErrors& errors_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace zeroshard::device::cuda
