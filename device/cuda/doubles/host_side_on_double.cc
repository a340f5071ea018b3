#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/cuda/doubles/launch_on_double.h"
#include "zeroshard/device/cuda/host_side.h"

namespace zeroshard::device::cuda {

void HostHandsOver(int device) { doubles::DoubleDevices::Get().Engine(device)->HandOver(); }

absl::Status QueueOnHost(cudaStream_t stream, const Operation& operation) {
  doubles::StreamQueue(stream).Enqueue(operation);
  return absl::OkStatus();
}

}  // namespace zeroshard::device::cuda
