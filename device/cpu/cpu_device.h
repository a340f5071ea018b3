// device/cpu: the host's memory and cores as a Device. Every operation runs at once, on its caller.
//
// Addresses are host addresses: HostAddress answers, Adopt takes any host memory.
//
// Example:
//   std::unique_ptr<Device> device = MakeCpuDevice({.threads = 2});
//   std::unique_ptr<Stream> compute = device->MakeStream(StreamKind::kCompute);
#pragma once

#include <memory>

#include "zeroshard/device/cpu/host_memory_source.h"
#include "zeroshard/device/device.h"

namespace zeroshard::device {

struct CpuDeviceOptions {
  // Threads of each product and kernel. Bits are promised for one value of it.
  int threads = 1;
  // Of all memory that the device allocates, where it is the host of another device; null: the machine's, pageable. Outlives the device.
  HostMemorySource* memory = nullptr;
};

std::unique_ptr<Device> MakeCpuDevice(const CpuDeviceOptions& options = {});

}  // namespace zeroshard::device
