// A kernel's launch where there is no GPU: queued on the double's stream as an operation of device/late's engine, with the memory that
// it declares.
//
// Example: see launch.h, the only user.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <type_traits>

#include "zeroshard/device/array.h"
#include "zeroshard/device/cuda/declared.h"
#include "zeroshard/device/cuda/kernel_list.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device::cuda::doubles {

// The stream's end of HostLaunch.
class StreamQueue {
 public:
  explicit StreamQueue(cudaStream_t stream) : stream_(stream) {}
  void Enqueue(const Operation& operation);

 private:
  const cudaStream_t stream_;
};

// What a launch on this thread gives now: success, or a sticky error. A kernel that was not loaded in time ends the test (loading.h).
cudaError_t BeforeLaunch(cudaStream_t stream, const LinkedKernel& kernel);
// What was launched faults when it runs, where the test says so (control.h).
void AfterLaunch(cudaStream_t stream, const char* kernel);
// The short name of a kernel, "AdamStep"; lives for ever.
const char* ShortName(const LinkedKernel& kernel);

// The kernel that runs on this thread; for messages.
class RunningKernel {
 public:
  explicit RunningKernel(const char* name);
  ~RunningKernel();
  RunningKernel(const RunningKernel&) = delete;
  RunningKernel& operator=(const RunningKernel&) = delete;
};

template <class T>
T Queued(const T& value) {
  static_assert(!std::is_pointer_v<T>, "device memory travels as In, Out or InOut");
  return value;
}
template <class T, AccessMode kMode>
HostArgument<T, kMode> Queued(const Declared<T, kMode>& memory) {
  const auto bytes = static_cast<int64_t>(memory.n * sizeof(T));
  return {Array(reinterpret_cast<uint64_t>(memory.p), bytes, DType::kUint8)};
}

template <class T>
const T& Resolved(const T& value, const T&) {
  return value;
}
template <class T, AccessMode kMode>
Declared<T, kMode> Resolved(std::span<T> memory, const Declared<T, kMode>&) {
  return {memory.data(), memory.size()};
}

// Queues loop(args...), with each Declared one where the host finds it.
template <class Loop, class... Args>
cudaError_t QueueKernel(cudaStream_t stream, const LinkedKernel& kernel, Loop loop, Args... args) {
  const cudaError_t error = BeforeLaunch(stream, kernel);
  if (error != cudaSuccess) return error;
  StreamQueue queue(stream);
  const char* name = ShortName(kernel);
  HostLaunch(
      queue, name,
      [=](const auto&... resolved) {
        const RunningKernel running(name);
        loop(Resolved(resolved, args)...);
      },
      Queued(args)...);
  AfterLaunch(stream, name);
  return cudaSuccess;
}

}  // namespace zeroshard::device::cuda::doubles
