#include "zeroshard/device/cuda/cuda_stream.h"

#include "zeroshard/device/cuda/cuda_event.h"
#include "zeroshard/device/cuda/host_side.h"
#include "zeroshard/device/span.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::device::cuda {

CudaStream::CudaStream(Device& device, int ordinal, StreamKind kind, CudaErrors& errors)
    : device_(device), ordinal_(ordinal), kind_(kind), errors_(errors) {
  errors_.Keep(cudaSetDevice(ordinal_), "selecting the device");
  int lowest = 0, highest = 0;
  errors_.Keep(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for priorities");
  const int priority = kind == StreamKind::kCommunication ? highest : lowest;
  errors_.Keep(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority), "making a stream");
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) errors_.Keep(cudaStreamDestroy(native()), "dropping a stream");
}

cudaStream_t CudaStream::native() {
  errors_.Keep(cudaSetDevice(ordinal_), "selecting the device");
  return stream_;
}

void CudaStream::Record(Event& event) {
  CudaEvent& to = static_cast<CudaEvent&>(event);
  if (device_.recorder().tracing()) Stamp(to.recorded_ns_);
  const VendorScope scope;
  errors_.Keep(cudaEventRecord(to.event_, native()), "recording an event");
  to.issued_.MarkRecorded();
}

void CudaStream::Wait(const Event& event) {
  const CudaEvent& on = static_cast<const CudaEvent&>(event);
  on.issued_.Synchronize();
  const VendorScope scope;
  errors_.Keep(cudaStreamWaitEvent(native(), on.event_, 0), "waiting for an event on a stream");
}

void CudaStream::Synchronize() {
  const VendorScope scope;
  errors_.Keep(cudaStreamSynchronize(native()), "waiting for a stream");
}

void CudaStream::Enqueue(const Operation& operation) { errors_.Keep(QueueOnHost(stream_, operation)); }

void CudaStream::Stamp(int64_t& time) {
  const auto stamp = [](void* to) { Store(*static_cast<int64_t*>(to), NowNs()); };
  const VendorScope scope;
  errors_.Keep(cudaLaunchHostFunc(native(), stamp, &time), "stamping a time");
}

}  // namespace zeroshard::device::cuda
