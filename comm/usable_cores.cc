#include "zeroshard/comm/usable_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <string>

namespace zeroshard::comm {
namespace {

// What this process's control group, and those that it is in, give it of time: in cores; 0: all. Of version 2, and, where a container
// shows its own group as the root, of version 1.
double Share() {
  double share = 0;
  const auto note = [&](double quota, double period) {
    if (quota > 0 && period > 0) share = share == 0 ? quota / period : std::min(share, quota / period);
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    for (std::string group = line.substr(3);; group = group.substr(0, group.rfind('/'))) {
      std::ifstream file("/sys/fs/cgroup" + group + "/cpu.max");
      double quota = 0, period = 0;
      if (file >> quota >> period) note(quota, period);
      if (group.empty() || group.find('/') == std::string::npos) break;
    }
  }
  double quota = 0, period = 0;
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period) note(quota, period);
  return share;
}

}  // namespace

CoreSet OwnCores() {
  CoreSet cores = {};
  if (sched_getaffinity(0, sizeof(cores), reinterpret_cast<cpu_set_t*>(cores.data())) == 0) return cores;
  const int64_t all = std::clamp<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1, 64 * static_cast<int64_t>(cores.size()));
  for (int64_t core = 0; core < all; ++core) cores[static_cast<size_t>(core / 64)] |= uint64_t{1} << core % 64;
  return cores;
}

int Count(const CoreSet& cores) {
  int count = 0;
  for (const uint64_t word : cores) count += std::popcount(word);
  return count;
}

int UsableCores() {
  const int cores = std::max(1, Count(OwnCores()));
  const double share = Share();
  return share == 0 ? cores : std::clamp(static_cast<int>(std::ceil(share)), 1, cores);
}

int CoresOfARank(int usable, int all, int ranks_here, bool binds) {
  const int ranks = std::max(1, ranks_here);
  const bool own = binds && usable <= all / ranks;
  return std::max(1, own ? usable : usable / ranks);
}

}  // namespace zeroshard::comm
