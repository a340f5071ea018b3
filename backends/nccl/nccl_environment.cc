#include "zeroshard/backends/nccl/nccl_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "zeroshard/comm/peer_words.h"

namespace zeroshard::backends {
namespace {

// Ranks of one process look while another sets.
std::mutex& EnvironmentMutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<std::string> SetByTheUser() {
  std::vector<std::string> set;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (absl::StartsWith(*variable, "NCCL_")) set.emplace_back(*variable);
  }
  std::sort(set.begin(), set.end());
  return set;
}

bool Fits(std::string_view name, std::string_view pattern, bool whole) {
  return whole ? name == pattern : name.substr(0, pattern.size()) == pattern;
}

// What NCCL, whose configuration these stand above, is to have. Its own files may set them where the environment does not.
struct Wanted {
  const char* name;
  const char* value;
  const char* why;
};
constexpr Wanted kWanted[] = {
    {"NCCL_COMM_BLOCKING", "1", "calls would come back before anything is queued"},
    {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "0", "a part that is dropped would abort the whole"},
};

}  // namespace

std::optional<std::string> NcclVariable(const char* name) {
  std::lock_guard<std::mutex> lock(EnvironmentMutex());
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

absl::Status CheckVariables() {
  for (const Wanted& wanted : kWanted) {
    const std::string set = NcclVariable(wanted.name).value_or("");
    // As NCCL reads it.
    if (set.empty() || std::strtoll(set.c_str(), nullptr, 0) == std::atoi(wanted.value)) continue;
    return absl::InvalidArgumentError(absl::StrCat(wanted.name, "=", comm::PeerWords(set), ": ", wanted.why,
                                                   ": unset the variable, or set it to ", wanted.value));
  }
  return absl::OkStatus();
}

std::vector<std::string> PrepareEnvironment(const NcclEnvironment& environment) {
  static std::vector<std::string>* by_the_user = nullptr;
  std::lock_guard<std::mutex> lock(EnvironmentMutex());
  if (by_the_user != nullptr) return *by_the_user;
  by_the_user = new std::vector<std::string>(SetByTheUser());
  for (const Wanted& wanted : kWanted) setenv(wanted.name, wanted.value, /*overwrite=*/0);
  setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  setenv("NCCL_RAS_ENABLE", "0", /*overwrite=*/0);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  if (!environment.interface.empty()) setenv("NCCL_SOCKET_IFNAME", environment.interface.c_str(), /*overwrite=*/0);
  if (environment.share_gpu)
    setenv("NCCL_HOSTID", absl::StrCat("zeroshard-rank-", environment.rank).c_str(), /*overwrite=*/0);
  return *by_the_user;
}

absl::Status CheckInterface(std::string_view wanted, std::span<const comm::NetworkAddress> here) {
  if (wanted.empty()) return absl::OkStatus();
  std::string_view patterns = wanted;
  const bool exclude = patterns.front() == '^';
  if (exclude) patterns.remove_prefix(1);
  const bool whole = !patterns.empty() && patterns.front() == '=';
  if (whole) patterns.remove_prefix(1);
  std::set<std::string> names;
  for (const comm::NetworkAddress& address : here) names.insert(address.interface);
  for (const std::string& name : names) {
    bool named = false;
    for (const absl::string_view pattern : absl::StrSplit(absl::string_view(patterns.data(), patterns.size()), ',')) {
      // A port may follow a name.
      const absl::string_view alone = pattern.substr(0, pattern.find(':'));
      named = named || (!alone.empty() && Fits(name, std::string_view(alone.data(), alone.size()), whole));
    }
    if (named != exclude) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("NCCL_SOCKET_IFNAME=", absl::string_view(wanted.data(), wanted.size()),
                                                 ": no network interface of this host fits; those that are up: ",
                                                 absl::StrJoin(names, ", "), ". Name one of them, or unset the variable"));
}

}  // namespace zeroshard::backends
