#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/ucx/ucx_group.h"
#include "zeroshard/backends/ucx/ucx_transport.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/testing/collective_case.h"
#include "zeroshard/comm/testing/other_group_case.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

using comm::Communicator;
using comm::OpKind;
using comm::testing::Case;
using comm::testing::CaseOnRank;
using comm::testing::Group;
using device::DType;

const comm::testing::Backend kBackend = {"Ucx", &MakeUcxRanks, [] { return device::MakeCpuDevice(); }};

void RunRegistered(Communicator& rank, Case c) {
  c.registered = true;
  CaseOnRank on_rank(rank, c);
  comm::Work work = on_rank.Issue();
  on_rank.Check(work);
}

constexpr OpKind kCollectives[] = {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kReduce,
                                   OpKind::kBroadcast};

TEST(UcxMappedMemory, CollectivesGiveTheTreesBits) {
  for (const int world_size : {1, 2, 3, 5}) {
    Group group(kBackend, world_size);
    group.Run([&](Communicator& rank) {
      uint64_t seed = 1;
      for (const OpKind kind : kCollectives) {
        for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{{1}, {37, 0, 64}, {150001}}) {
          for (const bool in_place : {false, true}) {
            RunRegistered(rank, {.kind = kind,
                                 .counts = counts,
                                 .gap = in_place ? 5 : 0,
                                 .in_place = in_place,
                                 .root = world_size - 1,
                                 .seed = ++seed});
            const DType out = comm::IsReduction(kind) && !in_place ? DType::kFloat32 : DType::kBfloat16;
            RunRegistered(rank, {.kind = kind,
                                 .op = comm::ReduceOp::kAverage,
                                 .in = DType::kBfloat16,
                                 .out = out,
                                 .counts = counts,
                                 .in_place = in_place,
                                 .wait_at_once = in_place,
                                 .seed = ++seed});
          }
        }
      }
    });
  }
}

TEST(UcxMappedMemory, ResultsThatNoCacheHoldsHaveTheTreesBits) {
  Group group(kBackend, 2);
  group.Run([&](Communicator& rank) {
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather}) {
      RunRegistered(rank, {.kind = kind, .counts = {(int64_t{8} << 20) / 4 + 21}, .seed = 3});
    }
  });
}

TEST(UcxMappedMemory, CountsTouchedBytesAsSent) {
  Group group(kBackend, 3);
  group.Run([&](Communicator& rank) {
    for (const OpKind kind : kCollectives) {
      const Case c{.kind = kind, .counts = {12 * 1000, 7}, .gap = 3, .root = 1};
      const int64_t before = rank.wire().sent_bytes(comm::Traffic::kData);
      RunRegistered(rank, c);
      EXPECT_EQ(rank.wire().sent_bytes(comm::Traffic::kData) - before, comm::testing::DirectBytes(c, rank.rank(), 3))
          << Describe(c);
    }
  });
}

TEST(UcxMappedMemory, MixesWithPlainMemory) {
  Group group(kBackend, 2);
  group.Run([&](Communicator& rank) {
    auto shared = rank.Allocate(4000, device::Use::kData, "shared");
    auto plain = rank.device().Allocate(4000, device::Use::kData, "plain");
    ASSERT_TRUE(shared.ok()) << shared.status();
    ASSERT_TRUE(plain.ok()) << plain.status();
    // Mapped on one rank only: all of it goes by messages.
    const device::Array x = (rank.rank() == 0 ? *shared : *plain).array(DType::kInt32).Slice(0, 1000);
    auto* values = static_cast<int32_t*>(rank.device().HostAddress(x));
    std::fill_n(values, 1000, rank.rank() + 1);
    EXPECT_TRUE(rank.AllReduce(x, x, comm::ReduceOp::kSum).Wait().ok());
    EXPECT_EQ(std::count(values, values + 1000, 3), 1000);
  });
}

// One transport a rank, each made by a thread of its own.
std::vector<std::unique_ptr<UcxTransport>> ConnectTransports(comm::Store& store, int world_size) {
  std::vector<std::unique_ptr<UcxTransport>> transports(static_cast<size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      auto made =
          UcxTransport::Connect({.store = &store, .rank = rank, .world_size = world_size, .timeout = absl::Seconds(60)});
      ASSERT_TRUE(made.ok()) << made.status();
      transports[static_cast<size_t>(rank)] = *std::move(made);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return transports;
}

// Memory of both ranks of a pair, which see each other's.
std::vector<std::unique_ptr<comm::MappedMemory>> AllocateOnBoth(std::vector<std::unique_ptr<UcxTransport>>& pair,
                                                                int64_t bytes) {
  CHECK(pair[0]->maps_memory() && pair[1]->maps_memory());
  std::vector<std::unique_ptr<comm::MappedMemory>> memory(2);
  std::thread other([&] { memory[1] = *pair[1]->Allocate(bytes); });
  memory[0] = *pair[0]->Allocate(bytes);
  other.join();
  return memory;
}

TEST(UcxMappedMemory, PeersReadWhatARankWrites) {
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  auto memory = AllocateOnBoth(pair, 10000);
  auto* mine = static_cast<unsigned char*>(memory[0]->data());
  for (int i = 0; i < 10000; ++i) ASSERT_EQ(mine[i], 0);
  std::memset(mine, 7, 10000);
  const uint64_t key = pair[0]->MapKey(mine + 100, 9900);
  const auto* seen = static_cast<const unsigned char*>(pair[1]->MappedAddress(0, key, 9900));
  ASSERT_NE(seen, nullptr);
  EXPECT_NE(seen, mine + 100);
  EXPECT_TRUE(pair[1]->BeginAccess(0).ok());
  EXPECT_EQ(seen[9899], 7);
  pair[1]->EndAccess(0);
}

TEST(UcxMappedMemory, RefusesKeysThatAreNone) {
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  auto memory = AllocateOnBoth(pair, 4096);
  auto* mine = static_cast<unsigned char*>(memory[0]->data());
  const uint64_t key = pair[0]->MapKey(mine, 4096);
  EXPECT_EQ(pair[0]->MapKey(&store, 1), 0u);
  EXPECT_EQ(pair[0]->MapKey(mine, 4097), 0u);
  EXPECT_EQ(pair[0]->MapKey(mine + 4095, 2), 0u);
  EXPECT_EQ(pair[1]->MappedAddress(0, key, 4097), nullptr);
  EXPECT_EQ(pair[1]->MappedAddress(0, key, -1), nullptr);
  EXPECT_EQ(pair[1]->MappedAddress(0, key + 4096, 1), nullptr);
  EXPECT_EQ(pair[1]->MappedAddress(0, key + (uint64_t{1} << 40), 1), nullptr);
  EXPECT_EQ(pair[1]->MappedAddress(0, 0, 1), nullptr);
  EXPECT_EQ(pair[1]->MappedAddress(0, ~uint64_t{0}, 1), nullptr);
  memory[1].reset();
  EXPECT_EQ(pair[1]->MappedAddress(0, key, 1), nullptr);  // Given back.
}

TEST(UcxMappedMemory, OutlivesItsTransport) {
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  auto memory = AllocateOnBoth(pair, 4096);
  pair.clear();
  std::memset(memory[0]->data(), 1, 4096);
}

TEST(UcxMappedMemory, EndsAccessesOfARankThatGaveUp) {
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  ASSERT_TRUE(pair[1]->BeginAccess(0).ok());
  pair[0]->Cancel(absl::FailedPreconditionError("the test says so"));
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pair[1]->EndAccess(0);
  });
  const auto begin = std::chrono::steady_clock::now();
  pair[0]->Quiesce();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(40));
  reader.join();
  const absl::Status told = pair[1]->BeginAccess(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
}

TEST(UcxMappedMemory, NamesTheRankThatAllocatesOtherwise) {
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  std::thread other([&] { EXPECT_TRUE(absl::IsFailedPrecondition(pair[1]->Allocate(200).status())); });
  const absl::Status told = pair[0]->Allocate(100).status();
  other.join();
  EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
  EXPECT_NE(std::string(told.message()).find("rank 1 allocates 200"), std::string::npos) << told;
}

TEST(UcxTransport, TellsLengthsThatDiffer) {
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  const comm::Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::vector<char> data(100000);
  for (const int64_t sent : {int64_t{10}, int64_t{90000}}) {
    for (const int64_t wanted : {sent - 1, sent + 1}) {
      const comm::Transfer out = pair[0]->Send(1, comm::Channel::kData, data.data(), sent);
      std::vector<char> room(static_cast<size_t>(wanted));
      const comm::Transfer in = pair[1]->Receive(0, comm::Channel::kData, room.data(), wanted);
      std::thread sender([&] { pair[0]->Wait(out, deadline).IgnoreError(); });
      const absl::Status told = pair[1]->Wait(in, deadline);
      sender.join();
      EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
      EXPECT_NE(std::string(told.message()).find(absl::StrCat("receives ", wanted)), std::string::npos) << told;
    }
  }
}

TEST(UcxTransport, KeepsTheOrderOfMessagesThatFindNoRoom) {
  constexpr int kMessages = 200;
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  const comm::Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::thread sender([&] {
    std::vector<int> numbers(comm::kMaxInFlight);
    for (int i = 0; i < kMessages; i += comm::kMaxInFlight) {
      std::vector<comm::Transfer> sends;
      for (int k = 0; k < comm::kMaxInFlight; ++k) {
        int& number = numbers[static_cast<size_t>(k)];
        number = i + k;
        sends.push_back(pair[0]->Send(1, comm::Channel::kControl, &number, sizeof(number)));
      }
      for (const comm::Transfer send : sends) EXPECT_TRUE(pair[0]->Wait(send, deadline).ok());
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (int i = 0; i < kMessages; ++i) {
    int number = -1;
    const comm::Transfer in = pair[1]->Receive(0, comm::Channel::kControl, &number, sizeof(number));
    ASSERT_TRUE(pair[1]->Wait(in, deadline).ok());
    ASSERT_EQ(number, i);
  }
  sender.join();
}

// The answer to a large message is waited for before the message is.
TEST(UcxTransport, MovesLargeMessagesOnWhileItWaitsForShortOnes) {
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  const comm::Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::thread other([&] {
    std::vector<char> room(1 << 20);
    const comm::Transfer in = pair[1]->Receive(0, comm::Channel::kData, room.data(), 1 << 20);
    EXPECT_TRUE(pair[1]->Wait(in, deadline).ok());
    const comm::Transfer out = pair[1]->Send(0, comm::Channel::kControl, room.data(), 1);
    EXPECT_TRUE(pair[1]->Wait(out, deadline).ok());
  });
  std::vector<char> large(1 << 20);
  char answer = 0;
  const comm::Transfer out = pair[0]->Send(1, comm::Channel::kData, large.data(), 1 << 20);
  const comm::Transfer in = pair[0]->Receive(1, comm::Channel::kControl, &answer, 1);
  EXPECT_TRUE(pair[0]->Wait(in, deadline).ok());
  EXPECT_TRUE(pair[0]->Wait(out, deadline).ok());
  other.join();
}

TEST(UcxTransport, ALateRankNamesItsOtherGroup) {
  comm::MemoryStore store;
  auto middle = std::make_shared<comm::WaitBoard>();
  comm::testing::ExpectALateRankNamesItsOtherGroup(middle, [&](int rank) {
    return UcxTransport::Connect({.store = &store,
                                  .rank = rank,
                                  .world_size = 3,
                                  .timeout = absl::Seconds(20),
                                  .waits = rank == 1 ? middle : nullptr});
  });
}

// Of a transfer that its peer does nothing for.
void ExpectSleepUntilLate(UcxTransport& transport, comm::Transfer transfer) {
  timespec before = {}, after = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  const absl::Status told = transport.Wait(transfer, std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  EXPECT_TRUE(absl::IsDeadlineExceeded(told)) << told;
  const double used_ms =
      1e3 * static_cast<double>(after.tv_sec - before.tv_sec) + 1e-6 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  EXPECT_LT(used_ms, 100);
}

TEST(UcxTransport, SleepsWhileItWaits) {
  comm::MemoryStore store;
  auto pair = ConnectTransports(store, 2);
  char byte = 0;
  ExpectSleepUntilLate(*pair[0], pair[0]->Receive(1, comm::Channel::kData, &byte, 1));
}

// UCX has sends queued, for which the peer that stands still has no room.
TEST(UcxTransport, SleepsWhileAPeerTakesNothing) {
  for (const int64_t bytes : {int64_t{5000}, int64_t{60000}, int64_t{1} << 20}) {
    comm::MemoryStore store;
    auto pair = ConnectTransports(store, 2);
    std::vector<char> data(static_cast<size_t>(bytes));
    for (int i = 0; i < 200; ++i) pair[0]->Send(1, comm::Channel::kData, data.data(), bytes);
    ExpectSleepUntilLate(*pair[0], pair[0]->Receive(1, comm::Channel::kData, data.data(), bytes));
    pair[0]->Quiesce();  // `data` ends here.
  }
}

int64_t EntriesIn(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(UcxTransport, LeavesNoDescriptorAndNoThread) {
  const auto make_and_drop = [](int times) {
    for (int i = 0; i < times; ++i) {
      comm::MemoryStore store;
      auto pair = ConnectTransports(store, 2);
      auto memory = AllocateOnBoth(pair, 4096);
      if (i % 2 == 0) pair[0]->Cancel(absl::FailedPreconditionError("the test says so"));
    }
  };
  make_and_drop(3);
  const int64_t descriptors = EntriesIn("/proc/self/fd");
  const int64_t threads = EntriesIn("/proc/self/task");
  make_and_drop(20);
  EXPECT_EQ(EntriesIn("/proc/self/fd"), descriptors);
  EXPECT_EQ(EntriesIn("/proc/self/task"), threads);
}

TEST(UcxTransport, NamesTheRankThatNeverComes) {
  comm::MemoryStore store;
  const auto made = UcxTransport::Connect({.store = &store, .rank = 0, .world_size = 2, .timeout = absl::Milliseconds(300)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(made.status())) << made.status();
  EXPECT_NE(std::string(made.status().message()).find("1"), std::string::npos) << made.status();
}

}  // namespace
}  // namespace zeroshard::backends
