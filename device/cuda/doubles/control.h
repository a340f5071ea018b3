// What a test tells the doubles: how many devices there are, in which order streams run, what goes wrong.
//
// The doubles are the calls that we make of the CUDA runtime (and cuBLASLt, and NCCL), over host memory, on device/late's engine: addresses
// that host code cannot touch, streams that run as late as they may, clocks that end the test (exit code 99) at two unordered
// accesses; any other call of theirs ends it by its name, and so does code that is loaded too late (loading.h), or a call of a stream or
// an event on a thread whose current device is another. Each device has an engine of its own, from its first stream, event or memory until
// its last is gone. What a test does not set comes from the environment, so that processes can be told too:
//   ZEROSHARD_DOUBLE_DEVICES  number of devices; default 8
//   ZEROSHARD_DOUBLE_ORDER    at_once, lazy (default), communication_first, compute_first, random
//   ZEROSHARD_DOUBLE_SEED     of random
//   ZEROSHARD_DOUBLE_MEMORY   bytes of each device; default 8 GiB
//   ZEROSHARD_DOUBLE_IN_USE   of them, what other programs hold; default 0
//   ZEROSHARD_DOUBLE_DRIVER   as cudaDriverGetVersion gives it, 0: there is none; default: as the toolkit's
//   ZEROSHARD_DOUBLE_ARCHITECTURE  90 (default): sm_90; those below 80 have no image of any kernel
//   ZEROSHARD_DOUBLE_HEURISTIC  which algorithm cuBLASLt's heuristics name first, as SetHeuristic; default 0
//   ZEROSHARD_DOUBLE_CUBLASLT  as cublasLtGetVersion gives it (130002: 13.0.2); default: the header's
//   ZEROSHARD_DOUBLE_FAULT    1:SumKernel:5: the fifth launch of that kernel on device 1 reads an illegal address; default: none does
//   ZEROSHARD_DOUBLE_USERS    a file, to which each process that calls CUDA appends a line with its id; default: none
// Streams of the highest priority are communication's in those orders, all others compute's.
//
// Example:
//   doubles::SetOrder({.order = LateOrder::kRandom, .seed = 3});
//   std::unique_ptr<Device> device = MakeCudaDevice({.ordinal = 0}).value();
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "zeroshard/device/late/late_options.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::device::cuda::doubles {

// Whether the threads of a block run from the last to the first from now on: a kernel whose results change lacks a barrier.
void SetThreadsBackwards(bool backwards);

// Of engines that are made from now on.
void SetOrder(const LateOptions& options);
void SetDevices(int devices);
void SetMemory(int64_t bytes_per_device);
void SetDriverVersion(int version);
// 0: the algorithm that adds in fp64; 1: the one that adds in fp32, and has other bits; 2: the first on devices of an even number.
void SetHeuristic(int heuristic);

// Every call for this device gives `error` from now on, as after a kernel's fault.
void BreakDevice(int device, cudaError_t error);
// All devices as they were at the start.
void MendDevices();
// What loading a kernel gives from now on.
void FailKernels(cudaError_t error);

// How many calls there were, of all devices, that give or take memory, pin it, or make or drop streams and events.
int64_t ResourceCalls();
// Whether `address` is pinned host memory, and how many ranges of it there are, of all devices.
bool IsPinned(const void* address);
int64_t PinnedPieces();

// As LateDevice's, of the device's engine; the device holds memory or streams.
std::vector<WaitPoint> Waits(int device);
// Of the device's next engine.
void LeaveOutWait(int device, const WaitPoint& point);

// An operation that waits for others outside the device: `poll` is asked until it gives true. `name` lives for ever. For the double of
// NCCL.
void EnqueuePolled(cudaStream_t stream, const char* name, std::span<const Access> accesses,
                   std::function<bool(const AddressMap&)> poll);
// Lets an operation of the stream's device run that may; false: there is none.
bool Progress(cudaStream_t stream);

}  // namespace zeroshard::device::cuda::doubles
