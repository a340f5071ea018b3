// The store that a flag names: --store=file:PATH, --store=tcp:HOST:PORT.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStore("file:/shared/job7", {.rank = 1, .world_size = 4}));
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/store_member.h"

namespace zeroshard::comm {

enum class StoreKind { kFile, kTcp };

struct StoreSpec {
  StoreKind kind;
  std::string path = {};     // of kFile
  std::string address = {};  // of kTcp: HOST:PORT
};

// Reads "file:PATH", "tcp:HOST:PORT"; touches nothing.
// Errors: kInvalidArgument another word, an empty path, no HOST:PORT.
absl::StatusOr<StoreSpec> ParseStoreSpec(std::string_view spec);

// Opens the store that `spec` names. Collective over the ranks of the job; errors as ParseStoreSpec's, FileStore::Open's and
// TcpStore::Open's.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(std::string_view spec, const StoreMember& member);

}  // namespace zeroshard::comm
