#include "zeroshard/device/cuda/doubles/control.h"

#include <utility>

#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/cuda/doubles/loading.h"

namespace zeroshard::device::cuda::doubles {

void SetOrder(const LateOptions& options) { DoubleDevices::Get().SetOrder(options); }
void SetDevices(int devices) { DoubleDevices::Get().SetCount(devices); }
void SetMemory(int64_t bytes_per_device) { DoubleDevices::Get().SetMemory(bytes_per_device); }
void SetHeuristic(int heuristic) { DoubleDevices::Get().SetHeuristic(heuristic); }
void SetDriverVersion(int version) { DoubleDevices::Get().SetDriverVersion(version); }
void BreakDevice(int device, cudaError_t error) { DoubleDevices::Get().Break(device, error); }
void MendDevices() { DoubleDevices::Get().Mend(); }
void FailKernels(cudaError_t error) { DoubleDevices::Get().FailKernels(error); }
int64_t PinnedPieces() { return DoubleDevices::Get().pinned_pieces(); }
int64_t ResourceCalls() { return DoubleDevices::Get().resource_calls(); }
bool IsPinned(const void* address) { return DoubleDevices::Get().IsPinned(address); }
std::vector<WaitPoint> Waits(int device) { return DoubleDevices::Get().Engine(device)->waits(); }
void LeaveOutWait(int device, const WaitPoint& point) { DoubleDevices::Get().LeaveOutWait(device, point); }

void EnqueuePolled(cudaStream_t stream, const char* name, std::span<const Access> accesses,
                   std::function<bool(const AddressMap&)> poll) {
  const CUstream_st& on = Checked(stream, name);
  on.engine->EnqueuePolled(on.id, name, accesses, Loading::Get().UnderWay(on.device, std::move(poll)));
}

bool Progress(cudaStream_t stream) { return Checked(stream, "Progress").engine->Progress(); }

}  // namespace zeroshard::device::cuda::doubles
