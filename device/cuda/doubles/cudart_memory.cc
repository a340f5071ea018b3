// The double of the CUDA runtime: memory and copies.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "zeroshard/device/array.h"
#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/cuda/doubles/launch_on_double.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device::cuda::doubles {
namespace {

constexpr size_t kPageBytes = 4096;

Array Bytes(const void* address, size_t bytes) {
  return Array(reinterpret_cast<uint64_t>(address), static_cast<int64_t>(bytes), DType::kUint8);
}

void CopyDown(StreamQueue& queue, void* to, const void* from, size_t bytes) {
  HostLaunch(
      queue, "copy to host", [to](std::span<const std::byte> x) { std::memcpy(to, x.data(), x.size()); },
      Read<std::byte>(Bytes(from, bytes)));
}

void CopyUp(StreamQueue& queue, void* to, const void* from, size_t bytes) {
  HostLaunch(
      queue, "copy from host", [from](std::span<std::byte> y) { std::memcpy(y.data(), from, y.size()); },
      Write<std::byte>(Bytes(to, bytes)));
}

void CopyWithin(StreamQueue& queue, void* to, const void* from, size_t bytes) {
  HostLaunch(
      queue, "copy",
      [](std::span<const std::byte> x, std::span<std::byte> y) { std::memmove(y.data(), x.data(), x.size()); },
      Read<std::byte>(Bytes(from, bytes)), Write<std::byte>(Bytes(to, bytes)));
}

}  // namespace
}  // namespace zeroshard::device::cuda::doubles

using namespace zeroshard::device::cuda::doubles;  // NOLINT(google-build-using-namespace): the functions are C's

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  DoubleDevices::Get().CountResourceCall();
  const int device = CurrentDevice();
  if (const cudaError_t error = DoubleDevices::Get().error(device)) return Failed(error);
  return Failed(DoubleDevices::Get().Allocate(device, static_cast<int64_t>(bytes), address));
}

cudaError_t cudaFree(void* address) {
  DoubleDevices::Get().CountResourceCall();
  if (address != nullptr) DoubleDevices::Get().Free(address);
  return cudaSuccess;
}

// Pinned memory is the host's own: no clock looks at it.
cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned flags) {
  DoubleDevices::Get().CountResourceCall();
  if (flags != cudaHostRegisterPortable) NotDoubled("cudaHostRegister", "flags " + std::to_string(flags));
  if (bytes == 0 || reinterpret_cast<uintptr_t>(address) % kPageBytes != 0) {
    NotDoubled("cudaHostRegister", "memory that does not start a page");
  }
  DoubleDevices::Get().Pin(address, bytes);
  return Failed(DoubleDevices::Get().error(CurrentDevice()));
}

cudaError_t cudaHostUnregister(void* address) {
  DoubleDevices::Get().CountResourceCall();
  DoubleDevices::Get().Unpin(address);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  attributes->device = DoubleDevices::Get().Owner(address);
  attributes->type = attributes->device < 0 ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = static_cast<size_t>(DoubleDevices::Get().free_bytes(CurrentDevice()));
  *total_bytes = static_cast<size_t>(DoubleDevices::Get().memory_bytes());
  return Failed(DoubleDevices::Get().error(CurrentDevice()));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  StreamQueue queue(&CheckedHere(stream, "cudaMemcpyAsync"));
  if (const cudaError_t error = DoubleDevices::Get().error(stream->device)) return Failed(error);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      CopyUp(queue, to, from, bytes);
      return cudaSuccess;
    case cudaMemcpyDeviceToHost:
      CopyDown(queue, to, from, bytes);
      return cudaSuccess;
    case cudaMemcpyDeviceToDevice:
      CopyWithin(queue, to, from, bytes);
      return cudaSuccess;
    default:
      NotDoubled("cudaMemcpyAsync", "a kind of copy that we never make");
  }
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  StreamQueue queue(&CheckedHere(stream, "cudaMemsetAsync"));
  if (const cudaError_t error = DoubleDevices::Get().error(stream->device)) return Failed(error);
  zeroshard::device::HostLaunch(
      queue, "memset", [value](std::span<std::byte> y) { std::memset(y.data(), value, y.size()); },
      zeroshard::device::Write<std::byte>(Bytes(address, bytes)));
  return cudaSuccess;
}

}  // extern "C"
