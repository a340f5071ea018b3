// MemoryStore: the store of ranks that are threads of one process.
//
// Example:
//   MemoryStore store;          // one for all ranks
//   std::thread other([&] { store.Set("address/1", "..."); });
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

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

  std::mutex mutex_;  // over values_
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace zeroshard::comm
