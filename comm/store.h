// Store: where the ranks of a job meet before they are connected: small values under names.
//
// A Store serves rendezvous (addresses, tokens, who is there), never data. Values are any bytes; keys too. All methods are
// thread-safe. A call that waits takes a timeout; what is not there by then is named.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStore("file:/shared/job7", {.rank = rank, .world_size = n}));
//   ZS_RETURN_IF_ERROR(store->Set(absl::StrCat("address/", rank), address));
//   ZS_ASSIGN_OR_RETURN(std::string peer, store->Get("address/0", absl::Seconds(30)));
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/rank_watch.h"

namespace zeroshard::comm {

// Bounds of what a store takes: what comes from another process is never larger.
inline constexpr int64_t kMaxStoreKeyBytes = 80;
inline constexpr int64_t kMaxStoreValueBytes = int64_t{1} << 20;

class Store {
 public:
  virtual ~Store() = default;

  // Puts `value` under `key`, in place of what was there; a reader sees the old value or the new one, never a part.
  // Errors: kInvalidArgument an empty key, or one or a value beyond the bounds; kUnavailable the store cannot be written.
  [[nodiscard]] absl::Status Set(std::string_view key, std::string_view value);

  // The value under `key`; waits for it until `timeout` has passed.
  // Errors: kDeadlineExceeded, naming the key and the store.
  [[nodiscard]] absl::StatusOr<std::string> Get(std::string_view key, absl::Duration timeout);

  // The value under `key`, or nothing; never waits.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> TryGet(std::string_view key);

  // Waits until every key is there.
  // Errors: kDeadlineExceeded, naming the keys that are not.
  [[nodiscard]] absl::Status Wait(std::span<const std::string> keys, absl::Duration timeout);

  // Adds to the counter under `key` (0 before the first), and gives the sum: one of N ranks that each add 1 gets N.
  // Errors: kFailedPrecondition the key holds a value that Set put there.
  [[nodiscard]] absl::StatusOr<int64_t> Add(std::string_view key, int64_t delta);

  // For messages: "the file store at /shared/job7".
  virtual std::string Describe() const = 0;

  // Who is missing, and what each rank did last; null where the store does not watch. Lives as long as the store.
  virtual RankWatch* watch() { return nullptr; }

 private:
  friend class PrefixStore;

  // Arguments are checked.
  virtual absl::Status DoSet(std::string_view key, std::string_view value) = 0;
  virtual absl::StatusOr<std::optional<std::string>> DoTryGet(std::string_view key) = 0;
  virtual absl::StatusOr<int64_t> DoAdd(std::string_view key, int64_t delta) = 0;
  // Waits until all of `keys` are there or `timeout` has passed, and leaves those in `keys` that are not: looks at each, and
  // pauses, where a store has nothing better.
  virtual absl::Status DoWait(std::vector<std::string>& keys, absl::Duration timeout);
  // Returns when something may have changed, at the latest after `limit`, and early now and then. `round` counts the calls of
  // one wait from 0.
  virtual void DoPause(int round, absl::Duration limit) = 0;
};

}  // namespace zeroshard::comm
