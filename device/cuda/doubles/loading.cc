#include "zeroshard/device/cuda/doubles/loading.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::doubles {

Loading& Loading::Get() {
  static Loading& loading = *new Loading;
  return loading;
}

void Loading::Begin(int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  devices_[device] = State();
}

void Loading::Use(int device, const Code& code, const char* call, const std::string& what) {
  std::lock_guard<std::mutex> lock(mutex_);
  State& state = devices_[device];
  if (!state.loaded.insert(code).second || *state.under_way == 0) return;
  EndTest(absl::StrCat(call, ": ", what, " is first used, and loaded, while a collective is under way on device ", device));
}

Poll Loading::UnderWay(int device, Poll poll) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<int> under_way = devices_[device].under_way;
  ++*under_way;
  return [this, under_way, poll = std::move(poll)](const AddressMap& map) {
    if (!poll(map)) return false;
    std::lock_guard<std::mutex> guard(mutex_);
    --*under_way;
    return true;
  };
}

}  // namespace zeroshard::device::cuda::doubles
