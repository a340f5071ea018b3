#include "zeroshard/device/cuda/doubles/launch_on_double.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/cuda/doubles/loading.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::doubles {
namespace {

thread_local const char* running = "no kernel";

// "... [with auto kKernel = zeroshard::device::cuda::Fill<float>; ...]" -> "Fill<float>"
std::string Shorten(std::string_view name) {
  constexpr std::string_view kBefore = "kKernel = ";
  if (const size_t at = name.find(kBefore); at != name.npos) name.remove_prefix(at + kBefore.size());
  name = name.substr(0, name.find_first_of(";]"));
  const size_t arguments = name.find_first_of("<(");
  if (const size_t colon = name.substr(0, arguments).rfind(':'); colon != name.npos) name.remove_prefix(colon + 1);
  return std::string(name);
}

}  // namespace

void StreamQueue::Enqueue(const Operation& operation) { stream_->engine->Enqueue(stream_->id, operation); }

cudaError_t BeforeLaunch(cudaStream_t stream, const LinkedKernel& kernel) {
  const CUstream_st& on = Checked(stream, kernel.name);
  if (CurrentDevice() != on.device) NotDoubled(kernel.name, "a launch on another device's stream than this thread's");
  Loading::Get().Use(on.device, {.number = reinterpret_cast<uint64_t>(kernel.function)}, "a launch", kernel.name);
  return Failed(DoubleDevices::Get().error(on.device));
}

void AfterLaunch(cudaStream_t stream, const char* kernel) {
  const int device = stream->device;
  if (!DoubleDevices::Get().FaultsNow(device, kernel)) return;
  StreamQueue queue(stream);
  HostLaunch(queue, "fault", [device] { BreakDevice(device, cudaErrorIllegalAddress); });
}

const char* ShortName(const LinkedKernel& kernel) {
  static std::mutex& mutex = *new std::mutex;
  static auto& names = *new std::map<const LinkedKernel*, std::string>;
  std::lock_guard<std::mutex> lock(mutex);
  const auto [entry, is_new] = names.try_emplace(&kernel);
  if (is_new) entry->second = Shorten(kernel.name);
  return entry->second.c_str();
}

RunningKernel::RunningKernel(const char* name) { running = name; }
RunningKernel::~RunningKernel() { running = "no kernel"; }

void OutOfRange(size_t element, size_t elements) {
  EndTest(absl::StrCat("kernel ", running, " touches element ", element, " of memory declared with ", elements));
}

void WarpInPart(unsigned threads) {
  EndTest(absl::StrCat("kernel ", running, " folds groups in a block of ", threads, " threads, which are not whole warps"));
}

bool& ThreadsBackwards() {
  static bool backwards = false;
  return backwards;
}

void SetThreadsBackwards(bool backwards) { ThreadsBackwards() = backwards; }

}  // namespace zeroshard::device::cuda::doubles
