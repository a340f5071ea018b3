// How ranks come together, and what they are told where they do not.
#include "zeroshard/backends/nccl/join.h"

#include <nccl.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/doubles/nccl_control.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cuda/cuda_libraries.h"
#include "zeroshard/device/library_versions.h"

namespace zeroshard::backends {
namespace {

using testing::DoubleDevice;
using ::testing::StartsWith;

TEST(Join, RefusesAnOlderNcclThanItWasBuiltAgainst) {
  EXPECT_TRUE(CheckNcclVersion(22809, 22809).ok());
  EXPECT_TRUE(CheckNcclVersion(23001, 22809).ok());
  const absl::Status older = CheckNcclVersion(22703, 22809);
  EXPECT_TRUE(absl::IsInvalidArgument(older)) << older;
  EXPECT_TRUE(absl::StrContains(older.message(), "NCCL 2.27.3 is loaded, and this program was built against 2.28.9"))
      << older;
  doubles::SetNcclVersion(22703);
  comm::MemoryStore store;
  const auto device = DoubleDevice(0);
  EXPECT_EQ(MakeNcclCommunicator({.device = device.get(), .store = &store}).status().code(),
            absl::StatusCode::kInvalidArgument);
  doubles::SetNcclVersion(NCCL_VERSION_CODE);
}

TEST(Join, TellsOfAnotherVersionOnAnotherRank) {
  const auto device = DoubleDevice(0);
  const std::string mine = device::cuda::LoadedLibraries();
  const auto told = [&](const std::string& rank_zeros) {
    comm::MemoryStore store;
    EXPECT_TRUE(store.Set("nccl/1/rank/0", rank_zeros + "\nelsewhere").ok());
    const auto joined = MakeNcclCommunicator({.device = device.get(), .store = &store, .rank = 1, .world_size = 2});
    EXPECT_TRUE(absl::IsInvalidArgument(joined.status())) << joined.status();
    return std::string(joined.status().message());
  };
  const std::string nccl = device::LibraryText("NCCL", NCCL_VERSION_CODE);
  EXPECT_THAT(told("NCCL 2.99.1, " + mine), StartsWith("rank 0 has NCCL 2.99.1, rank 1 has " + nccl + ": "));
  EXPECT_THAT(told(nccl + ", " + absl::StrReplaceAll(mine, {{"no cuDNN", "cuDNN 9.14.0"}})),
              StartsWith("rank 0 has cuDNN 9.14.0, rank 1 has no cuDNN: "));
  EXPECT_THAT(told(nccl + ", cuBLASLt 99.0.1, no cuDNN"), StartsWith("rank 0 has cuBLASLt 99.0.1, rank 1 has cuBLASLt "));
}

TEST(Join, RefusesWhatNoRankWrites) {
  const auto device = DoubleDevice(0);
  const std::string libraries =
      device::LibraryText("NCCL", NCCL_VERSION_CODE) + ", " + device::cuda::LoadedLibraries() + "\nelsewhere";
  const auto told = [&](const std::string& rank_zeros, const std::string& unique_id) {
    comm::MemoryStore store;
    EXPECT_TRUE(store.Set("nccl/1/rank/0", rank_zeros).ok());
    EXPECT_TRUE(store.Set("nccl/1/unique_id", unique_id).ok());
    const auto joined = MakeNcclCommunicator({.device = device.get(), .store = &store, .rank = 1, .world_size = 2});
    EXPECT_TRUE(absl::IsFailedPrecondition(joined.status())) << joined.status();
    return std::string(joined.status().message());
  };
  EXPECT_THAT(told("NCCL\x1b[2J\nelsewhere", ""), StartsWith("nccl: rank 0 wrote 'NCCL\\x1b[2J\\nelsewhere' (18 bytes)"));
  EXPECT_THAT(told(libraries, "short"),
              StartsWith("nccl: rank 0 wrote 'short' (5 bytes) to the store, where it writes NCCL's"));
}

TEST(Join, NamesTheRanksThatDidNotCome) {
  comm::MemoryStore store;
  const auto device = DoubleDevice(0);
  const auto joined = MakeNcclCommunicator(
      {.device = device.get(), .store = &store, .rank = 0, .world_size = 3, .timeout = absl::Milliseconds(100)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(joined.status())) << joined.status();
  EXPECT_TRUE(absl::StrContains(joined.status().message(), "nccl: not here within 100ms: rank 1, rank 2"))
      << joined.status();
}

TEST(Join, FindsNodesOfOneSizeThatIsAPowerOfTwo) {
  const auto size = [](std::vector<std::string> hosts) { return NodeSize(hosts); };
  EXPECT_EQ(size({"a"}), 1);
  EXPECT_EQ(size({"a", "a", "a", "a"}), 1);  // One node.
  EXPECT_EQ(size({"a", "b"}), 1);
  EXPECT_EQ(size({"a", "a", "b", "b"}), 2);
  EXPECT_EQ(size({"a", "a", "b", "b", "c", "c"}), 2);
  EXPECT_EQ(size({"a", "a", "a", "a", "b", "b", "b", "b"}), 4);
  EXPECT_EQ(size({"a", "a", "a", "b", "b", "b"}), 1);  // Trees over three do not nest.
  EXPECT_EQ(size({"a", "a", "b", "c"}), 1);
  EXPECT_EQ(size({"a", "a", "b", "b", "a", "a"}), 1);
  EXPECT_EQ(size({"a", "b", "a", "b"}), 1);
  EXPECT_EQ(size({"a", "a", "b", "b", "c"}), 1);
}

TEST(Join, WantsAGpu) {
  comm::MemoryStore store;
  const auto cpu = device::MakeCpuDevice();
  const auto joined = MakeNcclCommunicator({.device = cpu.get(), .store = &store});
  EXPECT_TRUE(absl::IsInvalidArgument(joined.status())) << joined.status();
  EXPECT_TRUE(absl::StrContains(joined.status().message(), "this rank's device is 'cpu': take --device=cuda"))
      << joined.status();
}

TEST(Join, MakesACommunicatorOfOneRankWithoutNccl) {
  comm::MemoryStore store;
  const auto device = DoubleDevice(0);
  const auto alone = comm::CreateCommunicator("nccl", {.device = device.get(), .store = &store});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE((*alone)->Barrier().Wait().ok());
  EXPECT_TRUE((*alone)->Allocate(100, device::Use::kData, "x").ok());
  EXPECT_TRUE((*alone)->Finalize().ok());
}

TEST(Join, FallsBackFromWindowsToRegistrationToPlainMemory) {
  for (const bool register_fails : {false, true}) {
    doubles::SetNcclWindows(false);
    doubles::SetNcclRegisterFails(register_fails);
    testing::NcclGroup group(2);
    group.Run([](comm::Communicator& rank) {
      const auto buffer = rank.Allocate(4000, device::Use::kParameters, "flat");
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      const device::Array x = buffer->array(device::DType::kFloat32);
      EXPECT_TRUE(rank.AllReduce(x, x, comm::ReduceOp::kSum).Wait().ok());
    });
  }
  doubles::SetNcclWindows(true);
  doubles::SetNcclRegisterFails(false);
}

// The double ends the test where the memory of a call is a window on one rank and not on another.
TEST(Join, TakesAWindowBackThatAnotherRankDoesNotHave) {
  for (const int fails : {0, 1}) {
    testing::NcclGroup group(2);
    doubles::SetNcclWindowFails(fails);
    group.Run([](comm::Communicator& rank) {
      const auto buffer = rank.Allocate(4000, device::Use::kParameters, "flat");
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      const device::Array x = buffer->array(device::DType::kInt32);
      EXPECT_TRUE(rank.AllReduce(x, x, comm::ReduceOp::kSum).Wait().ok());
    });
    doubles::SetNcclWindowFails(-1);
  }
}

TEST(Join, GivesMemoryOfUnlikeSizesToRanksThatAskForIt) {
  testing::NcclGroup group(2);
  group.Run([](comm::Communicator& rank) {
    const auto buffer = rank.Allocate(4000 + 8000 * rank.rank(), device::Use::kParameters, "flat");
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(rank.device().ledger().now(device::Use::kParameters), 4000 + 8000 * rank.rank());
  });
}

}  // namespace
}  // namespace zeroshard::backends
