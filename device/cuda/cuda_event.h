// CudaEvent: an Event of device/cuda, one of CUDA's with what CUDA does not have, Expect (event.h).
//
// Example:
//   CudaEvent event(/*ordinal=*/0, errors);
//   stream.Record(event);
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "zeroshard/device/cpu/cpu_event.h"
#include "zeroshard/device/cuda/cuda_errors.h"
#include "zeroshard/device/event.h"

namespace zeroshard::device::cuda {

class CudaEvent final : public Event {
 public:
  // Of device `ordinal`. `errors` outlives it.
  CudaEvent(int ordinal, CudaErrors& errors);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void Expect() override;
  bool Done() const override;
  void Synchronize() const override;
  int64_t recorded_ns() const override;

 private:
  friend class CudaStream;

  // For this thread; see CudaStream::native.
  void SelectDevice() const;

  const int ordinal_;
  CudaErrors& errors_;
  cudaEvent_t event_ = nullptr;
  CpuEvent issued_;  // done: the latest record has been queued
  int64_t recorded_ns_ = 0;
};

}  // namespace zeroshard::device::cuda
