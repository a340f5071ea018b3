// Devices by name: a tool picks one, nothing else knows which there are.
//
// Example:
//   // In the device's source, whose library is linked whole (alwayslink):
//   const bool registered = RegisterDevice("cuda", {.count = &CountGpus, .make = &MakeRanksGpu});
//   // In a tool:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, MakeDevice("cuda", {.local_rank = 0, .threads = 4}));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"

namespace zeroshard::device {

struct DeviceOptions {
  int local_rank = 0;  // of the ranks on this machine
  int threads = 1;     // of the host beside it
};

struct DeviceKind {
  // How many of them this process sees. Errors: kFailedPrecondition: why there is none, with the remedy.
  absl::StatusOr<int> (*count)();
  // Bytes of memory of the one of a rank, all of it. Initialises no device. Errors: why the rank can use none, with the remedy.
  absl::StatusOr<int64_t> (*memory)(const DeviceOptions& options);
  // The one of a rank.
  absl::StatusOr<std::unique_ptr<Device>> (*make)(const DeviceOptions& options);
  // What is left of its memory now, by whomever it was taken.
  int64_t (*free_bytes)(const Device& device);
  // Which libraries compute on it (library_versions.h).
  std::string (*libraries)();
  // Which one it is of all in the world, so that two ranks find out that they have the same: a GPU's UUID.
  std::string (*identity)(const Device& device);
};

// Gives true, for a static initialiser. A second kind of one name replaces the first.
bool RegisterDevice(std::string_view name, const DeviceKind& kind);

// Errors: kUnimplemented where the kind was not linked in; and the kind's own.
absl::StatusOr<int> CountDevices(std::string_view name);
absl::StatusOr<int64_t> DeviceMemory(std::string_view name, const DeviceOptions& options);
absl::StatusOr<std::unique_ptr<Device>> MakeDevice(std::string_view name, const DeviceOptions& options);
// Of a device of a registered kind, which Device::name tells; nothing of all others: their memory is the host's, and ranks may share them.
std::optional<int64_t> FreeBytesOf(const Device& device);
std::string IdentityOf(const Device& device);
std::string LibrariesOf(const Device& device);

}  // namespace zeroshard::device
