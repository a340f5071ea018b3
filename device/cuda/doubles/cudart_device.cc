// The double of the CUDA runtime: devices, their properties, and errors' words.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/cuda/doubles/loading.h"

using namespace zeroshard::device::cuda::doubles;  // NOLINT(google-build-using-namespace): the functions are C's

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = DoubleDevices::Get().driver_version();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (DoubleDevices::Get().driver_version() < CUDART_VERSION) return Failed(cudaErrorInsufficientDriver);
  *count = DoubleDevices::Get().count();
  return Failed(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= DoubleDevices::Get().count()) return Failed(cudaErrorInvalidDevice);
  CurrentDevice() = device;
  return Failed(DoubleDevices::Get().error(device));
}

cudaError_t cudaGetDevice(int* device) {
  *device = CurrentDevice();
  return cudaSuccess;
}

// A small H100: enough of it for messages and grids.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= DoubleDevices::Get().count()) return Failed(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "double of a GPU");
  properties->totalGlobalMem = static_cast<size_t>(DoubleDevices::Get().memory_bytes());
  properties->major = DoubleDevices::Get().architecture() / 10;
  properties->minor = DoubleDevices::Get().architecture() % 10;
  properties->multiProcessorCount = 132;
  properties->pciBusID = device;
  for (char& byte : properties->uuid.bytes) byte = static_cast<char>(device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= DoubleDevices::Get().count()) return Failed(cudaErrorInvalidDevice);
  if (attribute != cudaDevAttrClockRate) NotDoubled("cudaDeviceGetAttribute", "attribute " + std::to_string(attribute));
  *value = 1980000;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  std::memset(attributes, 0, sizeof *attributes);
  if (function == nullptr) NotDoubled("cudaFuncGetAttributes", "no kernel");
  if (const cudaError_t error = DoubleDevices::Get().kernel_error()) return Failed(error);
  if (DoubleDevices::Get().architecture() < 80) return Failed(cudaErrorNoKernelImageForDevice);
  Loading::Get().Use(CurrentDevice(), {.number = reinterpret_cast<uint64_t>(function)}, "cudaFuncGetAttributes", "a kernel");
  return Failed(DoubleDevices::Get().error(CurrentDevice()));
}

const char* cudaGetErrorName(cudaError_t error) {
  thread_local std::string name;
  name = "cudaError" + std::to_string(error);
  return name.c_str();
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    default:
      return "an error of the double";
  }
}

}  // extern "C"
