// MemoryStore: the store of ranks that are threads of one process.
//
// Example:
//   MemoryStore store;          // one for all ranks
//   std::thread other([&] { store.Set("address/1", "..."); });
#pragma once

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "zeroshard/comm/store.h"

namespace zeroshard::comm {

class MemoryStore final : public Store {
 public:
  std::string Describe() const override { return "the store in memory"; }

 private:
  absl::Status DoSet(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::optional<std::string>> DoTryGet(std::string_view key) override;
  absl::StatusOr<int64_t> DoAdd(std::string_view key, int64_t delta) override;
  void DoPause(int round, absl::Duration limit) override;

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::map<std::string, std::string, std::less<>> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace zeroshard::comm
