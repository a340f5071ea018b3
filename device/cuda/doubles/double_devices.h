// The devices of the doubles: each one's engine, who allocated what, what is wrong with it.
//
// Thread-safe.
//
// Example:
//   const std::shared_ptr<LateEngine> engine = DoubleDevices::Get().Engine(CurrentDevice());
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zeroshard/device/late/late_engine.h"
#include "zeroshard/device/late/late_options.h"

struct CUstream_st {
  std::shared_ptr<zeroshard::device::LateEngine> engine;
  int device;
  int id;  // of the engine
};

struct CUevent_st {
  std::shared_ptr<zeroshard::device::LateEngine> engine;
  int device;
  zeroshard::device::LateRecord record;  // under the engine's lock
};

namespace zeroshard::device::cuda::doubles {

class DoubleDevices {
 public:
  static DoubleDevices& Get();

  int count() const;
  int driver_version() const;
  int architecture() const { return architecture_; }  // 90: sm_90
  int heuristic() const;
  int64_t memory_bytes() const;
  int64_t free_bytes(int device) const;
  // The sticky error of the device, or cudaSuccess.
  cudaError_t error(int device) const;

  void SetOrder(const LateOptions& options);
  void SetCount(int devices);
  void SetMemory(int64_t bytes);
  void SetDriverVersion(int version);
  void SetHeuristic(int heuristic);
  void Break(int device, cudaError_t error);
  void Mend();
  // Whether this launch of the kernel is the one that ZEROSHARD_DOUBLE_FAULT names.
  bool FaultsNow(int device, std::string_view kernel);
  void FailKernels(cudaError_t error);
  cudaError_t kernel_error() const;
  void LeaveOutWait(int device, const WaitPoint& point);

  // The device's engine, a new one where nothing of an earlier one is left.
  std::shared_ptr<LateEngine> Engine(int device);

  // cudaErrorMemoryAllocation where the device has no room.
  cudaError_t Allocate(int device, int64_t bytes, void** address);
  // Ends the test where `address` did not come from Allocate.
  void Free(void* address);
  // What the device's memory is given out as now: addresses and bytes.
  std::vector<std::pair<uint64_t, int64_t>> Allocations(int device) const;
  // The device whose memory `address` lies in; -1: none.
  int Owner(const void* address) const;

  // See control.h.
  void CountResourceCall() { resource_calls_.fetch_add(1, std::memory_order_relaxed); }
  int64_t resource_calls() const { return resource_calls_.load(std::memory_order_relaxed); }

  // Host memory. Both end the test where it was so before.
  void Pin(void* address, size_t bytes);
  void Unpin(void* address);
  bool IsPinned(const void* address) const;
  int64_t pinned_pieces() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(pinned_.size());
  }

 private:
  struct State {
    std::weak_ptr<LateEngine> engine;
    int64_t used_bytes = 0;
    std::optional<WaitPoint> left_out;
  };
  struct Allocation {
    std::shared_ptr<LateEngine> engine;
    int device;
    int64_t bytes;
  };

  // Of which device's launches one faults.
  struct Fault {
    int device = -1;
    std::string kernel = {};
    int launches_left = 0;
  };
  static Fault FaultFromEnvironment();

  DoubleDevices();
  State& At(int device);
  std::shared_ptr<LateEngine> EngineLocked(int device);

  mutable std::mutex mutex_;
  LateOptions options_;
  int count_;
  int64_t memory_bytes_;
  const int64_t in_use_bytes_;
  int driver_version_;
  const int architecture_;
  int heuristic_;
  std::atomic<int64_t> resource_calls_ = 0;
  std::map<int, State> states_;
  std::map<void*, Allocation> allocations_;
  std::map<const void*, size_t> pinned_;
  cudaError_t kernel_error_ = cudaSuccess;
  int64_t allocated_ = 0;            // how many so far: their names
  mutable std::mutex errors_mutex_;  // The last to be taken: a fault is noticed under an engine's.
  std::map<int, cudaError_t> errors_;
  Fault fault_;
};

// Of this thread, as cudaSetDevice sets it.
int& CurrentDevice();

// Keeps `error` for cudaGetLastError and gives it back.
cudaError_t Failed(cudaError_t error);

// Ends the test: `call` is asked for something that we never do, or that CUDA leaves undefined.
[[noreturn]] void NotDoubled(const char* call, const std::string& what);

// The stream, or the end of the test where it is the default stream, which nothing of ours uses.
CUstream_st& Checked(cudaStream_t stream, const char* call);

// Ends the test where this thread's current device is not what the call is about: on a GPU the call would make a context on it.
void CheckCurrent(int device, const char* call);
// Both.
CUstream_st& CheckedHere(cudaStream_t stream, const char* call);

}  // namespace zeroshard::device::cuda::doubles
