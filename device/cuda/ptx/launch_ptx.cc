// The double of the CUDA runtime, for objects that nvcc made: what their stubs call, to register kernels and to launch them.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/block.h"
#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/cuda/doubles/launch_on_double.h"
#include "zeroshard/device/cuda/ptx/block_run.h"
#include "zeroshard/device/cuda/ptx/fat_binary.h"
#include "zeroshard/device/cuda/ptx/parser.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::ptx {
namespace {

// An object's kernels; parsed when the first of them is launched.
class Object {
 public:
  explicit Object(std::string_view text) : text_(text) {}
  const Module& module() {
    std::call_once(parsed_, [&] { module_ = Parse(text_); });
    return module_;
  }

 private:
  const std::string_view text_;
  std::once_flag parsed_;
  Module module_;
};

struct Kernel {
  Object* object;
  std::string name;  // in the object
  const void* function;

  const Program& program() const {
    const auto found = object->module().kernels.find(name);
    if (found == object->module().kernels.end()) EndTest(absl::StrCat("an object has no kernel ", name));
    return found->second;
  }
  const LinkedKernel& linked() const {
    for (const LinkedKernel* k = LinkedKernels(); k != nullptr; k = k->next) {
      if (k->function == function) return *k;
    }
    EndTest(absl::StrCat("kernel ", name, " is not in the list of kernels (kernel_list.h)"));
  }
};

// By the host's function. Static objects register themselves before main, and launches may come from several threads after.
std::map<const void*, Kernel>& Kernels() {
  static auto& kernels = *new std::map<const void*, Kernel>;
  return kernels;
}

// Launches of a device run one at a time, under its engine's lock.
struct DeviceState {
  GlobalMemory memory;
  BlockMemory of_blocks;
};
DeviceState& StateOf(int device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& states = *new std::map<int, DeviceState>;
  std::lock_guard<std::mutex> lock(mutex);
  return states[device];
}

// A line of JSON for a launch, in the file that ZEROSHARD_PTX_WORK names: for reckoning what a kernel is bound by.
void WriteWork(const char* kernel, const LaunchShape& shape, const Work& work) {
  static const char* const path = std::getenv("ZEROSHARD_PTX_WORK");
  if (path == nullptr) return;
  std::ofstream(path, std::ios::app) << absl::StrCat("{\"kernel\":\"", kernel, "\",\"blocks\":", shape.blocks,
                                                     ",\"threads\":", shape.threads, ",\"instructions\":", work.instructions,
                                                     ",\"bytes\":", work.bytes, "}\n");
}

// A launch as it waits on its stream.
struct QueuedLaunch {
  const Kernel* kernel;
  int device;
  LaunchShape shape;
  std::vector<std::byte> parameters;
  std::vector<std::pair<uint64_t, int64_t>> allocations;

  void Run(const AddressMap& map) const {
    const Program& program = kernel->program();
    DeviceState& state = StateOf(device);
    state.memory.BeginLaunch(allocations, kernel->object->module().constants, [&map](uint64_t address, int64_t bytes) {
      return static_cast<std::byte*>(map.Resolve(address, bytes));
    });
    BlockRun run(program, shape, parameters, state.memory, state.of_blocks);
    for (unsigned block = 0; block < shape.blocks; ++block) run.Run(block);
    WriteWork(doubles::ShortName(kernel->linked()), shape, run.work());
  }
};

std::vector<std::byte> ParametersOf(const Program& program, void** args) {
  std::vector<std::byte> parameters;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const Parameter& parameter = program.parameters[i];
    parameters.resize(parameter.offset + parameter.bytes);
    std::memcpy(parameters.data() + parameter.offset, args[i], parameter.bytes);
  }
  return parameters;
}

void Enqueue(cudaStream_t stream, const char* name, const QueuedLaunch& launch) {
  Operation operation = {};
  operation.name = name;
  operation.closure = &launch;
  operation.run = [](const void* self, const AddressMap& map) { static_cast<const QueuedLaunch*>(self)->Run(map); };
  operation.clone = [](const void* self) -> void* { return new QueuedLaunch(*static_cast<const QueuedLaunch*>(self)); };
  operation.destroy = [](void* self) { delete static_cast<QueuedLaunch*>(self); };
  doubles::StreamQueue(stream).Enqueue(operation);
}

cudaError_t Launch(const Kernel& kernel, dim3 grid, dim3 block, void** args, size_t shared_bytes, cudaStream_t stream) {
  const LinkedKernel& linked = kernel.linked();
  if (const cudaError_t error = doubles::BeforeLaunch(stream, linked)) return error;
  if (grid.y != 1 || grid.z != 1 || block.y != 1 || block.z != 1 || shared_bytes != 0) {
    doubles::NotDoubled(linked.name, "a grid of more than one dimension, or shared memory that the launch sizes");
  }
  if (block.x > kernel.program().most_threads) return doubles::Failed(cudaErrorInvalidConfiguration);
  const char* const name = doubles::ShortName(linked);
  const LaunchShape shape = {.threads = block.x, .blocks = grid.x, .is_backwards = doubles::ThreadsBackwards()};
  Enqueue(stream, name,
          {&kernel, stream->device, shape, ParametersOf(kernel.program(), args),
           doubles::DoubleDevices::Get().Allocations(stream->device)});
  doubles::AfterLaunch(stream, name);
  return cudaSuccess;
}

// "<<<...>>>", between its two calls.
struct Configuration {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local Configuration configuration;

}  // namespace
}  // namespace zeroshard::device::cuda::ptx

namespace ptx = zeroshard::device::cuda::ptx;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) { return reinterpret_cast<void**>(new ptx::Object(ptx::PtxIn(wrapper))); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void** object, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  ptx::Kernels()[function] = {reinterpret_cast<ptx::Object*>(object), name, function};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, CUstream_st* stream) {
  ptx::configuration = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  *grid = ptx::configuration.grid;
  *block = ptx::configuration.block;
  *shared_bytes = ptx::configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = ptx::configuration.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  const auto found = ptx::Kernels().find(function);
  if (found == ptx::Kernels().end()) return cudaErrorInvalidDeviceFunction;
  *kernel = reinterpret_cast<cudaKernel_t>(&found->second);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                               cudaStream_t stream) {
  return ptx::Launch(*reinterpret_cast<const ptx::Kernel*>(kernel), grid, block, args, shared_bytes, stream);
}

}  // extern "C"
