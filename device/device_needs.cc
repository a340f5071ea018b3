#include "zeroshard/device/device_needs.h"

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace zeroshard::device {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, DeviceNeeds, std::less<>> needs;
};

// Made at the first registration, which comes before main: never destroyed.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

bool RegisterNeeds(std::string_view name, const DeviceNeeds& needs) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.needs[std::string(name)] = needs;
  return true;
}

DeviceNeeds NeedsOf(std::string_view name) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.needs.find(name);
  return found == registry.needs.end() ? DeviceNeeds() : found->second;
}

}  // namespace zeroshard::device
