#include "zeroshard/device/cuda/near_host.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::device::cuda {
namespace {

constexpr char kBusId[] = "0000:1b:00.0";

// A sysfs of two nodes, with the GPU on the second.
class NearHostTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const auto file = std::filesystem::path(sysfs_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void SetUp() override {
    std::filesystem::remove_all(sysfs_);
    Write("bus/pci/devices/0000:1b:00.0/numa_node", "1");
    Write("bus/pci/devices/0000:03:00.0/numa_node", "-1");
    Write("devices/system/node/node0/cpulist", "0-3,8-11");
    Write("devices/system/node/node1/cpulist", "4-7,12");
  }
  const std::string sysfs_ = testing::TempDir() + "/near_host_sysfs";
};

std::vector<int> CoresOfThisThread() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  std::vector<int> list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cores)) list.push_back(cpu);
  }
  return list;
}

TEST_F(NearHostTest, IsTheNodeThatTheKernelNames) {
  const NearHost host = FindNearHost(kBusId, sysfs_);
  EXPECT_EQ(host.node, 1);
  EXPECT_EQ(host.cpus, std::vector<int>({4, 5, 6, 7, 12}));
}

TEST_F(NearHostTest, IsNoneWhereTheKernelNamesNone) {
  for (const char* bus_id : {"0000:03:00.0", "0000:ff:00.0"}) {
    const NearHost host = FindNearHost(bus_id, sysfs_);
    EXPECT_EQ(host.node, -1);
    EXPECT_TRUE(host.cpus.empty());
  }
}

TEST_F(NearHostTest, NoListOfCoresIsNoCores) {
  Write("devices/system/node/node1/cpulist", "4-x");
  EXPECT_TRUE(FindNearHost(kBusId, sysfs_).cpus.empty());
}

TEST(CpuList, IsReadAsTheKernelWritesIt) {
  EXPECT_EQ(ParseCpuList("0-2,5\n").value(), std::vector<int>({0, 1, 2, 5}));
  EXPECT_TRUE(ParseCpuList("").value().empty());
  for (const char* bad : {"a", "3-1", "-1", "1-", "0-99999999"}) {
    EXPECT_EQ(ParseCpuList(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

// On a thread of the test's, and one that it starts.
TEST(StayNear, BindsTheThreadAndThoseThatItStarts) {
  const std::vector<int> before = CoresOfThisThread();
  std::thread([&] {
    const int chosen = before.back();
    // Core 1000 is no core of this machine.
    ASSERT_TRUE(StayNear({.node = 0, .cpus = {chosen, 1000}}).ok());
    EXPECT_EQ(CoresOfThisThread(), std::vector<int>({chosen}));
    std::thread([&] {
      EXPECT_EQ(CoresOfThisThread(), std::vector<int>({chosen}));
      int policy = -1;
      // A container may forbid both calls.
      if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) == 0 && policy != MPOL_DEFAULT) {
        EXPECT_EQ(policy, MPOL_PREFERRED);
      }
    }).join();
  }).join();
  EXPECT_EQ(CoresOfThisThread(), before);
}

TEST(StayNear, ChangesNothingWhereNoneOfTheCoresIsAllowed) {
  const std::vector<int> before = CoresOfThisThread();
  std::thread([&] {
    ASSERT_TRUE(StayNear({.node = -1, .cpus = {1000}}).ok());
    EXPECT_EQ(CoresOfThisThread(), before);
  }).join();
}

}  // namespace
}  // namespace zeroshard::device::cuda
