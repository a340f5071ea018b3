// Collectives on a few bytes of the host, before a run's first step: they go through device memory, and are waited for.
//
// Example:
//   ZS_RETURN_IF_ERROR(BroadcastText(communicator, /*root=*/0, text, "product choices"));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/array.h"

namespace zeroshard::trainer {

using Collective = absl::FunctionRef<comm::Work(const device::Array& array, const comm::CallOptions& options)>;

// `bytes` [count elements of `dtype`] is copied to device memory, and comes back as `collective` leaves it there.
// Errors: the collective's; kResourceExhausted.
absl::Status OnHostBytes(comm::Communicator& communicator, void* bytes, int64_t count, device::DType dtype,
                         std::string_view label, Collective collective);

// Collective: `text` becomes the root's, of whatever length. Errors: as OnHostBytes.
absl::Status BroadcastText(comm::Communicator& communicator, int root, std::string& text, std::string_view label);

}  // namespace zeroshard::trainer
