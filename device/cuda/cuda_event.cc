#include "zeroshard/device/cuda/cuda_event.h"

#include "zeroshard/device/cuda/host_side.h"
#include "zeroshard/device/span.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::device::cuda {

CudaEvent::CudaEvent(int ordinal, CudaErrors& errors) : ordinal_(ordinal), errors_(errors) {
  SelectDevice();
  errors_.Keep(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
}

CudaEvent::~CudaEvent() {
  SelectDevice();
  if (event_ != nullptr) errors_.Keep(cudaEventDestroy(event_), "dropping an event");
}

void CudaEvent::Expect() {
  HostHandsOver(ordinal_);
  issued_.Expect();
}

// After an error everything is done: whoever waits goes on, and reads the device's status.
bool CudaEvent::Done() const {
  if (!issued_.Done()) return false;
  SelectDevice();
  const VendorScope scope;
  const cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) return false;
  errors_.Keep(error, "asking for an event");
  return true;
}

void CudaEvent::Synchronize() const {
  issued_.Synchronize();
  SelectDevice();
  const VendorScope scope;
  errors_.Keep(cudaEventSynchronize(event_), "waiting for an event");
}

int64_t CudaEvent::recorded_ns() const { return Load(recorded_ns_); }

void CudaEvent::SelectDevice() const { errors_.Keep(cudaSetDevice(ordinal_), "selecting the device"); }

}  // namespace zeroshard::device::cuda
