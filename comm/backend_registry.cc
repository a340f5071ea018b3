#include "zeroshard/comm/backend_registry.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zeroshard::comm {
namespace {

struct Backend {
  BackendFactory factory = nullptr;
  SurroundingsCheck check = nullptr;
  MemoryFormula memory = nullptr;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Backend, std::less<>> backends;
};

// Made at the first registration, which comes before main: never destroyed.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

// Without functions where there is none of this name.
Backend Find(std::string_view name) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.backends.find(name);
  return found == registry.backends.end() ? Backend() : found->second;
}

// Letters to insert, drop or change to come from one word to the other.
size_t EditDistance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (from[i - 1] == to[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[to.size()];
}

absl::Status UnknownBackend(std::string_view name) {
  const std::vector<std::string> known = Backends();
  if (known.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("backend '", std::string(name), "': none was built into this program"));
  }
  const std::string& nearest = *std::min_element(known.begin(), known.end(), [name](const auto& a, const auto& b) {
    return EditDistance(name, a) < EditDistance(name, b);
  });
  return absl::InvalidArgumentError(absl::StrCat("backend '", std::string(name), "' is not built in; the nearest is '",
                                                 nearest, "', and there are: ", absl::StrJoin(known, ", ")));
}

absl::Status CheckOptions(const BackendOptions& options) {
  if (options.device == nullptr) return absl::InvalidArgumentError("backend: no device was given");
  if (options.store == nullptr) return absl::InvalidArgumentError("backend: no store was given");
  if (options.world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("world size ", options.world_size, "; it is 1 or more"));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options.rank, " is none of 0 to ", options.world_size - 1));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout ", absl::FormatDuration(options.timeout), "; it is more than 0"));
  }
  return absl::OkStatus();
}

}  // namespace

bool RegisterBackend(std::string_view name, BackendFactory factory, SurroundingsCheck check) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  Backend& backend = registry.backends[std::string(name)];
  backend.factory = factory;
  backend.check = check;
  return true;
}

bool RegisterMemory(std::string_view name, MemoryFormula formula) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.backends[std::string(name)].memory = formula;
  return true;
}

std::vector<std::string> Backends() {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, backend] : registry.backends) {
    if (backend.factory != nullptr) names.push_back(name);
  }
  return names;
}

absl::Status CheckSurroundings(std::string_view name, const BackendOptions& options) {
  const SurroundingsCheck check = Find(name).check;
  return check == nullptr ? absl::OkStatus() : check(options);
}

BackendMemory MemoryOf(std::string_view name, const MemoryRequest& request) {
  const MemoryFormula formula = Find(name).memory;
  return formula == nullptr ? BackendMemory() : formula(request);
}

absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicator(std::string_view name, const BackendOptions& options) {
  const BackendFactory factory = Find(name).factory;
  if (factory == nullptr) return UnknownBackend(name);
  if (absl::Status checked = CheckOptions(options); !checked.ok()) return checked;
  return factory(options);
}

}  // namespace zeroshard::comm
