// Collectives on a few bytes of the host, before a run's first step or after its last: they go through device memory, and are waited for.
//
// Example:
//   ZS_RETURN_IF_ERROR(BroadcastText(communicator, /*root=*/0, text, "product choices"));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {

using Collective = absl::FunctionRef<comm::Work(const device::Array& array, const comm::CallOptions& options)>;

// `bytes` [count elements of `dtype`] is copied to device memory, and comes back as `collective` leaves it there.
// Errors: the collective's; kResourceExhausted.
absl::Status OnHostBytes(comm::Communicator& communicator, void* bytes, int64_t count, device::DType dtype,
                         std::string_view label, Collective collective);

// Collective: every rank's record, by rank. Errors: as OnHostBytes.
template <class Record>
absl::StatusOr<std::vector<Record>> GatherRecords(comm::Communicator& communicator, const Record& mine,
                                                  std::string_view label) {
  static_assert(std::is_trivially_copyable_v<Record>);
  constexpr int64_t kBytes = sizeof(Record);
  std::vector<Record> records(static_cast<size_t>(communicator.world_size()));
  records[static_cast<size_t>(communicator.rank())] = mine;
  const auto gather = [&](const device::Array& all, const comm::CallOptions& options) {
    return communicator.AllGather(all.Slice(communicator.rank() * kBytes, kBytes), all, options);
  };
  ZS_RETURN_IF_ERROR(
      OnHostBytes(communicator, records.data(), communicator.world_size() * kBytes, device::DType::kUint8, label, gather));
  return records;
}

// Collective: `text` becomes the root's, of whatever length. Errors: as OnHostBytes.
absl::Status BroadcastText(comm::Communicator& communicator, int root, std::string& text, std::string_view label);

}  // namespace zeroshard::trainer
