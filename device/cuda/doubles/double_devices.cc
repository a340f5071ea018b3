#include "zeroshard/device/cuda/doubles/double_devices.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <ios>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/cuda/doubles/loading.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::doubles {
namespace {

thread_local int this_threads_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) EndTest(absl::StrCat(name, "=", text, " is no number"));
  return value;
}

LateOptions OrderFromEnvironment() {
  LateOptions options;
  options.seed = static_cast<uint32_t>(FromEnvironment("ZEROSHARD_DOUBLE_SEED", 1));
  const char* set = std::getenv("ZEROSHARD_DOUBLE_ORDER");
  const std::string_view order = set == nullptr ? "lazy" : set;
  if (order == "at_once") {
    options.order = LateOrder::kAtOnce;
  } else if (order == "random") {
    options.order = LateOrder::kRandom;
  } else if (order == "communication_first" || order == "compute_first") {
    options.order = LateOrder::kOneFirst;
    options.first = order == "compute_first" ? StreamKind::kCompute : StreamKind::kCommunication;
  } else if (order != "lazy") {
    EndTest(absl::StrCat("ZEROSHARD_DOUBLE_ORDER=", std::string(order), " is no order"));
  }
  return options;
}

}  // namespace

int& CurrentDevice() { return this_threads_device; }

cudaError_t Failed(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void NotDoubled(const char* call, const std::string& what) { EndTest(absl::StrCat(call, ": ", what)); }

CUstream_st& Checked(cudaStream_t stream, const char* call) {
  if (stream == nullptr) NotDoubled(call, "the default stream, which orders itself against all others, is never used");
  return *stream;
}

void CheckCurrent(int device, const char* call) {
  if (CurrentDevice() == device) return;
  NotDoubled(call, absl::StrCat("of device ", device, ", on a thread whose current device is ", CurrentDevice(),
                                ": it would make a context there"));
}

CUstream_st& CheckedHere(cudaStream_t stream, const char* call) {
  CUstream_st& checked = Checked(stream, call);
  CheckCurrent(checked.device, call);
  return checked;
}

DoubleDevices& DoubleDevices::Get() {
  static DoubleDevices& devices = *new DoubleDevices;
  return devices;
}

DoubleDevices::DoubleDevices()
    : options_(OrderFromEnvironment()),
      count_(static_cast<int>(FromEnvironment("ZEROSHARD_DOUBLE_DEVICES", 8))),
      memory_bytes_(FromEnvironment("ZEROSHARD_DOUBLE_MEMORY", int64_t{8} << 30)),
      in_use_bytes_(FromEnvironment("ZEROSHARD_DOUBLE_IN_USE", 0)),
      driver_version_(static_cast<int>(FromEnvironment("ZEROSHARD_DOUBLE_DRIVER", CUDART_VERSION))),
      architecture_(static_cast<int>(FromEnvironment("ZEROSHARD_DOUBLE_ARCHITECTURE", 90))),
      heuristic_(static_cast<int>(FromEnvironment("ZEROSHARD_DOUBLE_HEURISTIC", 0))),
      fault_(FaultFromEnvironment()) {
  const char* users = std::getenv("ZEROSHARD_DOUBLE_USERS");
  if (users != nullptr) std::ofstream(users, std::ios::app) << absl::StrCat(getpid(), "\n");
}

DoubleDevices::Fault DoubleDevices::FaultFromEnvironment() {
  const char* text = std::getenv("ZEROSHARD_DOUBLE_FAULT");
  if (text == nullptr) return {};
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  Fault fault;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &fault.device) || !absl::SimpleAtoi(parts[2], &fault.launches_left)) {
    EndTest(absl::StrCat("ZEROSHARD_DOUBLE_FAULT=", text, " is no DEVICE:KERNEL:LAUNCH"));
  }
  fault.kernel = parts[1];
  return fault;
}

DoubleDevices::State& DoubleDevices::At(int device) {
  if (device < 0 || device >= count_) EndTest(absl::StrCat("device ", device, " of ", count_));
  return states_[device];
}

int DoubleDevices::count() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return count_;
}

int DoubleDevices::driver_version() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return driver_version_;
}

int DoubleDevices::heuristic() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return heuristic_;
}

int64_t DoubleDevices::memory_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return memory_bytes_;
}

int64_t DoubleDevices::free_bytes(int device) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto state = states_.find(device);
  return memory_bytes_ - in_use_bytes_ - (state == states_.end() ? 0 : state->second.used_bytes);
}

cudaError_t DoubleDevices::error(int device) const {
  std::lock_guard<std::mutex> lock(errors_mutex_);
  const auto found = errors_.find(device);
  return found == errors_.end() ? cudaSuccess : found->second;
}

void DoubleDevices::SetOrder(const LateOptions& options) {
  std::lock_guard<std::mutex> lock(mutex_);
  options_ = options;
}

void DoubleDevices::SetCount(int devices) {
  std::lock_guard<std::mutex> lock(mutex_);
  count_ = devices;
}

void DoubleDevices::SetMemory(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  memory_bytes_ = bytes;
}

void DoubleDevices::SetHeuristic(int heuristic) {
  std::lock_guard<std::mutex> lock(mutex_);
  heuristic_ = heuristic;
}

void DoubleDevices::SetDriverVersion(int version) {
  std::lock_guard<std::mutex> lock(mutex_);
  driver_version_ = version;
}

void DoubleDevices::Break(int device, cudaError_t error) {
  std::lock_guard<std::mutex> lock(errors_mutex_);
  errors_[device] = error;
}

void DoubleDevices::Mend() {
  std::lock_guard<std::mutex> lock(errors_mutex_);
  errors_.clear();
  last_error = cudaSuccess;
}

bool DoubleDevices::FaultsNow(int device, std::string_view kernel) {
  std::lock_guard<std::mutex> lock(errors_mutex_);
  return device == fault_.device && kernel == fault_.kernel && --fault_.launches_left == 0;
}

void DoubleDevices::LeaveOutWait(int device, const WaitPoint& point) {
  std::lock_guard<std::mutex> lock(mutex_);
  At(device).left_out = point;
}

std::shared_ptr<LateEngine> DoubleDevices::Engine(int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  return EngineLocked(device);
}

std::shared_ptr<LateEngine> DoubleDevices::EngineLocked(int device) {
  State& state = At(device);
  std::shared_ptr<LateEngine> engine = state.engine.lock();
  if (engine != nullptr) return engine;
  engine = std::make_shared<LateEngine>(options_);
  if (state.left_out) engine->LeaveOutWait(*state.left_out);
  state.left_out.reset();
  state.engine = engine;
  Loading::Get().Begin(device);
  return engine;
}

cudaError_t DoubleDevices::Allocate(int device, int64_t bytes, void** address) {
  std::lock_guard<std::mutex> lock(mutex_);
  State& state = At(device);
  if (in_use_bytes_ + state.used_bytes + bytes > memory_bytes_) return cudaErrorMemoryAllocation;
  const std::shared_ptr<LateEngine> engine = EngineLocked(device);
  const absl::StatusOr<uint64_t> made = engine->Allocate(bytes, absl::StrCat("allocation ", allocated_++));
  if (!made.ok()) return cudaErrorMemoryAllocation;
  *address = reinterpret_cast<void*>(*made);
  state.used_bytes += bytes;
  allocations_.emplace(*address, Allocation{engine, device, bytes});
  return cudaSuccess;
}

void DoubleDevices::Free(void* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) NotDoubled("cudaFree", "memory that cudaMalloc did not give, or that was freed before");
  found->second.engine->Free(reinterpret_cast<uint64_t>(address), found->second.bytes);
  At(found->second.device).used_bytes -= found->second.bytes;
  allocations_.erase(found);
}

std::vector<std::pair<uint64_t, int64_t>> DoubleDevices::Allocations(int device) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::pair<uint64_t, int64_t>> found;
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.device == device) found.emplace_back(reinterpret_cast<uint64_t>(address), allocation.bytes);
  }
  return found;
}

int DoubleDevices::Owner(const void* address) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto next = allocations_.upper_bound(const_cast<void*>(address));
  if (next == allocations_.begin()) return -1;
  const auto& [base, allocation] = *std::prev(next);
  return address < static_cast<const char*>(base) + allocation.bytes ? allocation.device : -1;
}

void DoubleDevices::Pin(void* address, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!pinned_.emplace(address, bytes).second) NotDoubled("cudaHostRegister", "memory that is pinned already");
}

void DoubleDevices::Unpin(void* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (pinned_.erase(address) == 0) NotDoubled("cudaHostUnregister", "memory that is not pinned");
}

bool DoubleDevices::IsPinned(const void* address) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto next = pinned_.upper_bound(address);
  if (next == pinned_.begin()) return false;
  const auto& [base, bytes] = *std::prev(next);
  return address < static_cast<const char*>(base) + bytes;
}

void DoubleDevices::FailKernels(cudaError_t error) {
  std::lock_guard<std::mutex> lock(mutex_);
  kernel_error_ = error;
}

cudaError_t DoubleDevices::kernel_error() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return kernel_error_;
}

}  // namespace zeroshard::device::cuda::doubles

extern "C" {

cudaError_t cudaGetLastError() {
  using zeroshard::device::cuda::doubles::last_error;
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() { return zeroshard::device::cuda::doubles::last_error; }

}  // extern "C"
