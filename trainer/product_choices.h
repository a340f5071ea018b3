// That all ranks multiply by the same algorithms: rank 0's, or an earlier run's; and the file that keeps them.
//
// The file is Device::ProductChoices as it is (the library and the card's architecture, then a product and its algorithm a line) and a
// last line with a checksum, since algorithms are opaque bytes of the vendor's.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::string saved, ReadProductChoices("run.products"));
//   ...
//   ZS_RETURN_IF_ERROR(ShareProductChoices(communicator, saved));   // all products are planned, none has run in a step
//   ZS_RETURN_IF_ERROR(KeepProductChoices(communicator.device(), "run.products", note));
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard::trainer {

// Collective; does nothing on devices that choose nothing (Device::ProductChoices). Every rank has all choices afterwards: rank 0's
// `saved`, or, where that is empty, rank 0's own, and for a product that it has not planned those of the first rank that has.
// Errors: kFailedPrecondition, naming the two ranks, where rank 0 has another card or library; kInvalidArgument where `saved` is of another
// card, library or model; the communicator's.
absl::Status ShareProductChoices(comm::Communicator& communicator, const std::string& saved);

// Errors: the system's, with the path; kInvalidArgument where the file is not what was written.
absl::StatusOr<std::string> ReadProductChoices(const std::string& path);
// Errors: the system's, with the path.
absl::Status WriteProductChoices(const std::string& path, const std::string& choices);
// Writes what the device's products run by, and says so to `note`, which may be empty; does nothing where `path` is empty. Errors: as above.
absl::Status KeepProductChoices(const device::Device& device, const std::string& path,
                                const std::function<void(std::string_view)>& note);

}  // namespace zeroshard::trainer
