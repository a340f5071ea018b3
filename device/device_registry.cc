#include "zeroshard/device/device_registry.h"

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, DeviceKind, std::less<>> kinds;
};

// Made at the first registration, which comes before main: never destroyed.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

absl::StatusOr<DeviceKind> Find(std::string_view name) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.kinds.find(name);
  if (found != registry.kinds.end()) return found->second;
  return absl::UnimplementedError(absl::StrCat("device '", std::string(name), "' is not built in"));
}

}  // namespace

bool RegisterDevice(std::string_view name, const DeviceKind& kind) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.kinds[std::string(name)] = kind;
  return true;
}

absl::StatusOr<int> CountDevices(std::string_view name) {
  ZS_ASSIGN_OR_RETURN(const DeviceKind kind, Find(name));
  return kind.count();
}

absl::StatusOr<int64_t> DeviceMemory(std::string_view name, const DeviceOptions& options) {
  ZS_ASSIGN_OR_RETURN(const DeviceKind kind, Find(name));
  return kind.memory(options);
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(std::string_view name, const DeviceOptions& options) {
  ZS_ASSIGN_OR_RETURN(const DeviceKind kind, Find(name));
  return kind.make(options);
}

std::optional<int64_t> FreeBytesOf(const Device& device) {
  const absl::StatusOr<DeviceKind> kind = Find(device.name());
  if (!kind.ok()) return std::nullopt;
  return kind->free_bytes(device);
}

std::string IdentityOf(const Device& device) {
  const absl::StatusOr<DeviceKind> kind = Find(device.name());
  return kind.ok() ? kind->identity(device) : "";
}

std::string LibrariesOf(const Device& device) {
  const absl::StatusOr<DeviceKind> kind = Find(device.name());
  return kind.ok() ? kind->libraries() : "";
}

}  // namespace zeroshard::device
