#include "zeroshard/comm/store_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/store_counter.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {

absl::Status MemoryStore::DoSet(std::string_view key, std::string_view value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  values_.insert_or_assign(std::string(key), std::string(value));
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> MemoryStore::DoTryGet(std::string_view key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

absl::StatusOr<int64_t> MemoryStore::DoAdd(std::string_view key, int64_t delta) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = values_.find(key);
  ZS_ASSIGN_OR_RETURN(const int64_t sum,
                      CountUp(found == values_.end() ? std::nullopt : std::optional<std::string>(found->second), delta));
  values_.insert_or_assign(std::string(key), absl::StrCat(sum));
  changed_.notify_all();
  return sum;
}

void MemoryStore::DoPause(int /*round*/, absl::Duration limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  // A change between the caller's look and this wait is not signalled again: hence never for long.
  changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(limit, absl::Milliseconds(2))));
}

}  // namespace zeroshard::comm
