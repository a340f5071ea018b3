#include "zeroshard/device/cuda/near_host.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

constexpr int kMostNodes = 1024;
constexpr int kBitsOfWord = 8 * sizeof(unsigned long);

std::string FirstLine(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

absl::Status RunOn(const std::vector<int>& cpus) {
  cpu_set_t allowed, wanted;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return absl::ErrnoToStatus(errno, "asking for a thread's cores");
  CPU_ZERO(&wanted);
  for (const int cpu : cpus) {
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &wanted);
  }
  if (CPU_COUNT(&wanted) == 0) return absl::OkStatus();
  if (sched_setaffinity(0, sizeof wanted, &wanted) != 0) return absl::ErrnoToStatus(errno, "binding a thread to cores");
  return absl::OkStatus();
}

// A kernel without NUMA, or a container that may not choose, is no error: memory comes from where it came before.
void PreferMemoryOf(int node) {
  if (node < 0 || node >= kMostNodes) return;
  int chosen = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &chosen, nullptr, 0, nullptr, 0) != 0 || chosen != MPOL_DEFAULT) return;  // numactl's stays
  std::array<unsigned long, kMostNodes / kBitsOfWord> nodes = {};
  nodes[static_cast<size_t>(node / kBitsOfWord)] = 1UL << (node % kBitsOfWord);
  syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), kMostNodes + 1);
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  for (const absl::string_view range :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    const bool numbers = absl::SimpleAtoi(ends.front(), &first) && absl::SimpleAtoi(ends.back(), &last);
    if (!numbers || first < 0 || last < first || last >= CPU_SETSIZE) {
      return absl::InvalidArgumentError(absl::StrCat("\"", range, "\" is no range of cores"));
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

NearHost FindNearHost(const std::string& bus_id, const std::string& sysfs) {
  const std::string device = absl::StrCat(sysfs, "/bus/pci/devices/", bus_id);
  NearHost host;
  if (!absl::SimpleAtoi(FirstLine(absl::StrCat(device, "/numa_node")), &host.node)) host.node = -1;
  if (host.node < 0) return host;
  const std::string node = absl::StrCat(sysfs, "/devices/system/node/node", host.node);
  host.cpus = ParseCpuList(FirstLine(absl::StrCat(node, "/cpulist"))).value_or(std::vector<int>());
  return host;
}

absl::Status StayNear(const NearHost& host) {
  ZS_RETURN_IF_ERROR(RunOn(host.cpus));
  PreferMemoryOf(host.node);
  return absl::OkStatus();
}

}  // namespace zeroshard::device::cuda
