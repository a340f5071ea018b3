// The double of the CUDA runtime: streams and events.
#include <cuda_runtime_api.h>

#include <array>
#include <span>
#include <string>

#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/cuda/doubles/launch_on_double.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/stream.h"

using namespace zeroshard::device::cuda::doubles;  // NOLINT(google-build-using-namespace): the functions are C's
using zeroshard::device::StreamKind;

namespace {

constexpr int kHighestPriority = -5, kLowestPriority = 0;  // an H100's

cudaError_t ErrorOf(int device) { return Failed(DoubleDevices::Get().error(device)); }

}  // namespace

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = kLowestPriority;
  *highest = kHighestPriority;
  return ErrorOf(CurrentDevice());
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  DoubleDevices::Get().CountResourceCall();
  if (flags != cudaStreamNonBlocking) NotDoubled("cudaStreamCreateWithPriority", "a stream that the default stream orders");
  const int device = CurrentDevice();
  if (const cudaError_t error = ErrorOf(device)) return error;
  const auto engine = DoubleDevices::Get().Engine(device);
  const StreamKind kind = priority == kHighestPriority ? StreamKind::kCommunication : StreamKind::kCompute;
  *stream = new CUstream_st{engine, device, engine->AddStream(kind)};
  return cudaSuccess;
}

// What is queued is run to the end, as on a GPU.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  DoubleDevices::Get().CountResourceCall();
  CheckedHere(stream, "cudaStreamDestroy").engine->Drain(stream->id);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CheckedHere(stream, "cudaStreamSynchronize").engine->Synchronize(stream->id);
  return ErrorOf(stream->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags != 0) NotDoubled("cudaStreamWaitEvent", "flags " + std::to_string(flags));
  const CUstream_st& on = CheckedHere(stream, "cudaStreamWaitEvent");
  if (event->device != on.device) NotDoubled("cudaStreamWaitEvent", "an event of another device");
  on.engine->Wait(on.id, event->record);
  return ErrorOf(on.device);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  StreamQueue queue(&CheckedHere(stream, "cudaLaunchHostFunc"));
  zeroshard::device::HostLaunch(queue, "host function", [function, data] { function(data); });
  return ErrorOf(stream->device);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  DoubleDevices::Get().CountResourceCall();
  if (flags != cudaEventDisableTiming && flags != (cudaEventDisableTiming | cudaEventBlockingSync)) {
    NotDoubled("cudaEventCreateWithFlags", "flags " + std::to_string(flags));
  }
  const int device = CurrentDevice();
  if (const cudaError_t error = ErrorOf(device)) return error;
  *event = new CUevent_st{DoubleDevices::Get().Engine(device), device, {}};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  CheckCurrent(event->device, "cudaEventDestroy");
  DoubleDevices::Get().CountResourceCall();
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const CUstream_st& on = CheckedHere(stream, "cudaEventRecord");
  if (event->device != on.device) NotDoubled("cudaEventRecord", "an event of another device");
  on.engine->Record(on.id, event->record);
  return ErrorOf(on.device);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  CheckCurrent(event->device, "cudaEventQuery");
  if (const cudaError_t error = ErrorOf(event->device)) return error;
  return event->engine->Done(event->record) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  CheckCurrent(event->device, "cudaEventSynchronize");
  event->engine->Synchronize(event->record);
  return ErrorOf(event->device);
}

}  // extern "C"
