#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/backends/gloo/peer_connections.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {

ConnectOptions OfSplit(const ConnectOptions& options, std::span<const int> members, int rank, absl::Duration timeout) {
  ConnectOptions part = options;
  part.rank = rank;
  part.world_size = static_cast<int>(members.size());
  part.timeout = timeout;
  part.numbers.clear();
  for (int member : members) part.numbers.push_back(options.Number(member));
  return part;
}

absl::StatusOr<std::string> StorePrefixOfNext(std::string_view backend, ConnectOptions& options) {
  const std::string name(backend);
  if (options.store == nullptr || options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": rank ", options.rank, " of ", options.world_size, " ranks",
                                                   options.store == nullptr ? ", without a store" : ": ranks count from 0"));
  }
  ZS_ASSIGN_OR_RETURN(const int64_t number, options.store->Add(absl::StrCat(name, "/made/", options.rank), 1));
  if (options.waits == nullptr) options.waits = std::make_shared<comm::WaitBoard>();
  return absl::StrCat(name, "/", number, "/");
}

}  // namespace zeroshard::backends
