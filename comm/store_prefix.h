// PrefixStore: a part of another store, under a prefix of its own: so that two communicators of one job do not meet.
//
// Example:
//   PrefixStore tensor_parallel("tp/", world_store);      // world_store must outlive it
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/store.h"

namespace zeroshard::comm {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string_view prefix, Store& store) : prefix_(prefix), store_(&store) {}

  std::string Describe() const override { return absl::StrCat(store_->Describe(), " under ", prefix_); }
  RankWatch* watch() override { return store_->watch(); }

 private:
  std::string Key(std::string_view key) const { return prefix_ + std::string(key); }

  absl::Status DoSet(std::string_view key, std::string_view value) override { return store_->Set(Key(key), value); }
  absl::StatusOr<std::optional<std::string>> DoTryGet(std::string_view key) override { return store_->TryGet(Key(key)); }
  absl::StatusOr<int64_t> DoAdd(std::string_view key, int64_t delta) override { return store_->Add(Key(key), delta); }
  absl::Status DoWait(std::vector<std::string>& keys, absl::Duration timeout) override {
    for (std::string& key : keys) key.insert(0, prefix_);
    const absl::Status status = store_->DoWait(keys, timeout);
    for (std::string& key : keys) key.erase(0, prefix_.size());
    return status;
  }
  void DoPause(int round, absl::Duration limit) override { store_->DoPause(round, limit); }

  std::string prefix_;
  Store* store_;
};

}  // namespace zeroshard::comm
