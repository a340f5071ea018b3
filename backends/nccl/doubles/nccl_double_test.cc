// The double ends the test where NCCL leaves undefined what happens.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends::doubles {
namespace {

struct Rank {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
  float* memory;  // 1024 elements
};

// Two ranks on two devices, threads of this process.
void OnTwoRanks(const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      Rank rank{.rank = r, .comm = nullptr, .stream = nullptr, .memory = nullptr};
      cudaSetDevice(r);
      cudaStreamCreateWithPriority(&rank.stream, cudaStreamNonBlocking, -5);
      ncclMemAlloc(reinterpret_cast<void**>(&rank.memory), 4096);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 1;
      ncclCommInitRankConfig(&rank.comm, 2, id, r, &config);
      body(rank);
      cudaStreamSynchronize(rank.stream);
    });
  }
  // One of them may be through before the other looks.
  for (std::thread& thread : threads) thread.join();
  std::exit(0);  // Not reached where the test ends as it should.
}

void AllReduce(const Rank& rank, size_t count, ncclDataType_t dtype = ncclFloat32) {
  ncclGroupStart();
  ncclAllReduce(rank.memory, rank.memory, count, dtype, ncclSum, rank.comm, rank.stream);
  ncclGroupEnd();
  cudaStreamSynchronize(rank.stream);
}

struct Fault {
  const char* says;
  std::function<void(Rank&)> body;
};

std::vector<Fault> Faults() {
  return {
      {"calls ncclAllReduce of 1[01] elements.*calls ncclAllReduce of 1[01] elements",
       [](Rank& rank) { AllReduce(rank, rank.rank == 0 ? 10 : 11); }},
      {"calls ncclAllReduce of 10 elements \\(dtype",
       [](Rank& rank) { AllReduce(rank, 10, rank.rank == 0 ? ncclFloat32 : ncclInt32); }},
      {"ncclBroadcast of 10 elements",
       [](Rank& rank) {
         if (rank.rank == 0) return AllReduce(rank, 10);
         ncclGroupStart();
         ncclBroadcast(rank.memory, rank.memory, 10, ncclFloat32, 1, rank.comm, rank.stream);
         ncclGroupEnd();
         cudaStreamSynchronize(rank.stream);
       }},
      {"a group was left open",
       [](Rank& rank) {
         std::thread([&] {
           cudaSetDevice(rank.rank);
           ncclGroupStart();
           ncclAllReduce(rank.memory, rank.memory, 10, ncclFloat32, ncclSum, rank.comm, rank.stream);
         }).join();
       }},
      {"ncclAllReduce outside a group",
       [](Rank& rank) { ncclAllReduce(rank.memory, rank.memory, 10, ncclFloat32, ncclSum, rank.comm, rank.stream); }},
      {"ncclAllReduce of a communicator that is gone",
       [](Rank& rank) {
         ncclCommAbort(rank.comm);
         AllReduce(rank, 10);
       }},
      {"ncclCommDestroy while operations are in flight",
       [](Rank& rank) {
         ncclGroupStart();
         ncclAllReduce(rank.memory, rank.memory, 10, ncclFloat32, ncclSum, rank.comm, rank.stream);
         ncclGroupEnd();
         ncclCommDestroy(rank.comm);
       }},
      {"a symmetric window of (4096|8192) bytes",
       [](Rank& rank) {
         ncclWindow_t window;
         ncclCommWindowRegister(rank.comm, rank.memory, rank.rank == 0 ? 4096 : 8192, &window, NCCL_WIN_COLL_SYMMETRIC);
       }},
      {"mixed registration",
       [](Rank& rank) {
         void* other = nullptr;
         ncclMemAlloc(&other, 4096);
         ncclWindow_t window;
         ncclCommWindowRegister(rank.comm, rank.rank == 0 ? rank.memory : other, 4096, &window, NCCL_WIN_COLL_SYMMETRIC);
         AllReduce(rank, 10);
       }},
      {"lies elsewhere in a symmetric window on rank [01] than on rank [01]",
       [](Rank& rank) {
         ncclWindow_t window;
         ncclCommWindowRegister(rank.comm, rank.memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC);
         float* at = rank.memory + 256 * rank.rank;
         ncclGroupStart();
         ncclAllReduce(at, at, 10, ncclFloat32, ncclSum, rank.comm, rank.stream);
         ncclGroupEnd();
         cudaStreamSynchronize(rank.stream);
       }},
      {"ncclMemFree of memory that is registered",
       [](Rank& rank) {
         void* handle = nullptr;
         ncclCommRegister(rank.comm, rank.memory, 4096, &handle);
         ncclMemFree(rank.memory);
       }},
      {"ncclAlltoAll is called, which the doubles do not have",
       [](Rank& rank) { ncclAlltoAll(rank.memory, rank.memory, 1, ncclFloat32, rank.comm, rank.stream); }},
  };
}

TEST(NcclDouble, EndsTheTestByName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Fault& fault : Faults()) {
    EXPECT_EXIT(OnTwoRanks(fault.body), ::testing::ExitedWithCode(device::kLateExitCode), fault.says) << fault.says;
  }
}

// Lines of a process's memory that speak of the double's; empty: not in time.
std::string AwaitMemoryOf(pid_t process) {
  for (int i = 0; i < 60'000; ++i) {
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("zeroshard_nccl") != line.npos) return line;
    }
    usleep(1000);
  }
  return "";
}

TEST(NcclDouble, LeavesNothingWhereARankIsKilledBeforeAllAreThere) {
  auto* const id = static_cast<ncclUniqueId*>(
      mmap(nullptr, sizeof(ncclUniqueId), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t comm = nullptr;
  const pid_t first = fork();
  if (first == 0) {
    ncclGetUniqueId(id);
    ncclCommInitRankConfig(&comm, 2, *id, 0, &config);
    _exit(0);
  }
  EXPECT_THAT(AwaitMemoryOf(first), ::testing::EndsWith("(deleted)")) << "it has a name, under which it stays";
  kill(first, SIGKILL);
  int status = 0;
  waitpid(first, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, *id, 1, &config), ncclRemoteError);
  munmap(id, sizeof *id);
}

}  // namespace
}  // namespace zeroshard::backends::doubles
