#include "zeroshard/backends/gloo/gloo_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/testing/other_group_case.h"

namespace zeroshard::backends {
namespace {

using comm::Channel;
using comm::Deadline;
using comm::Transfer;
using ::testing::AnyOf;
using ::testing::HasSubstr;

Deadline In(absl::Duration time) { return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time); }
Deadline Soon() { return In(absl::Seconds(20)); }

using Body = std::function<void(GlooTransport&)>;

// Runs `body` on each rank, a thread of its own.
void OnRanks(int world_size, const Body& body) {
  comm::MemoryStore store;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      auto transport =
          GlooTransport::Connect({.store = &store, .rank = rank, .world_size = world_size, .timeout = absl::Seconds(20)});
      ASSERT_TRUE(transport.ok()) << transport.status();
      body(**transport);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

std::vector<int64_t> Pattern(int rank, size_t count) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), int64_t{1000000} * rank);
  return values;
}

class Worlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(GlooTransport, Worlds, ::testing::Values(1, 2, 3, 5));

TEST_P(Worlds, EachPairExchangesOnBothChannels) {
  OnRanks(GetParam(), [&](GlooTransport& transport) {
    for (const size_t count : {size_t{1}, size_t{32}, size_t{33}, size_t{100001}}) {
      const std::vector<int64_t> mine = Pattern(transport.rank(), count);
      const auto bytes = static_cast<int64_t>(count * sizeof(int64_t));
      for (const Channel channel : {Channel::kControl, Channel::kData}) {
        for (int step = 1; step < transport.world_size(); ++step) {
          const int to = (transport.rank() + step) % transport.world_size();
          const int from = (transport.rank() - step + transport.world_size()) % transport.world_size();
          std::vector<int64_t> theirs(count);
          const Transfer in = transport.Receive(from, channel, theirs.data(), bytes);
          const Transfer out = transport.Send(to, channel, mine.data(), bytes);
          ASSERT_EQ(transport.Wait(in, Soon()), absl::OkStatus());
          ASSERT_EQ(transport.Wait(out, Soon()), absl::OkStatus());
          EXPECT_EQ(theirs, Pattern(from, count));
        }
      }
    }
  });
}

TEST(GlooTransport, MessagesOfOneLaneMeetInOrder) {
  OnRanks(2, [](GlooTransport& transport) {
    const int peer = 1 - transport.rank();
    constexpr int kMessages = 300;
    for (int first = 0; first < kMessages; first += comm::kMaxInFlight) {
      int64_t sent[comm::kMaxInFlight][100], got[comm::kMaxInFlight][100];
      std::vector<Transfer> transfers;
      for (int i = 0; i < comm::kMaxInFlight; ++i) {
        sent[i][0] = first + i;
        // Short and long ones in turn: both keep the order.
        const int64_t bytes = (i % 2 == 0) ? 8 : 800;
        transfers.push_back(transport.Receive(peer, Channel::kData, got[i], bytes));
        transfers.push_back(transport.Send(peer, Channel::kData, sent[i], bytes));
      }
      for (const Transfer transfer : transfers) ASSERT_EQ(transport.Wait(transfer, Soon()), absl::OkStatus());
      for (int i = 0; i < comm::kMaxInFlight; ++i) EXPECT_EQ(got[i][0], first + i);
    }
  });
}

TEST(GlooTransport, LongSendsWaitForShortOnesThatLinger) {
  OnRanks(2, [](GlooTransport& transport) {
    constexpr int kMessages = 200;
    const auto length_of = [](int i) { return i % 40 < 20 ? 64 : 4096; };
    for (int i = 0; i < kMessages; ++i) {
      std::vector<char> memory(4096, static_cast<char>(transport.rank() == 0 ? i : 0));
      if (transport.rank() == 0) {
        ASSERT_EQ(transport.Wait(transport.Send(1, Channel::kData, memory.data(), length_of(i)), Soon()), absl::OkStatus());
        std::fill(memory.begin(), memory.end(), '\xff');  // the caller's again
      } else {
        if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        ASSERT_EQ(transport.Wait(transport.Receive(0, Channel::kData, memory.data(), length_of(i)), Soon()),
                  absl::OkStatus());
        EXPECT_EQ(memory[0], static_cast<char>(i));
        EXPECT_EQ(memory[static_cast<size_t>(length_of(i)) - 1], static_cast<char>(i));
      }
    }
  });
}

TEST(GlooTransport, ShortSendsEndWithoutTheirReceives) {
  OnRanks(2, [](GlooTransport& transport) {
    constexpr int kMessages = 20;
    if (transport.rank() == 0) {
      for (int i = 0; i < kMessages; ++i) {
        int value = i;
        ASSERT_EQ(transport.Wait(transport.Send(1, Channel::kControl, &value, sizeof(value)), In(absl::ZeroDuration())),
                  absl::OkStatus());
        value = -1;  // the caller's again
      }
      return;  // and takes leave before rank 1 has received any
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (int i = 0; i < kMessages; ++i) {
      int value = -2;
      ASSERT_EQ(transport.Wait(transport.Receive(0, Channel::kControl, &value, sizeof(value)), Soon()), absl::OkStatus());
      EXPECT_EQ(value, i);
    }
  });
}

TEST(GlooTransport, LengthsThatDifferEndTheTransfersOnBothSidesAndNotTheProcess) {
  const std::pair<int64_t, int64_t> kLengths[] = {{8, 16}, {4096, 1024}, {1024, 4096}, {4096, 8}, {8 << 20, 1 << 20}};
  for (const auto& [sent, received] : kLengths) {
    // Each side says what it sees, or what the other said first.
    const std::string at_sender = absl::StrCat("rank 1 receives ", received, " bytes where rank 0 sends ", sent);
    const std::string at_receiver = absl::StrCat("rank 0 sends ", sent, " bytes where rank 1 receives ", received);
    for (const bool receiver_first : {true, false}) {
      OnRanks(2, [&, sent = sent, received = received](GlooTransport& transport) {
        std::vector<char> memory(8 << 20);
        if ((transport.rank() == 0) == receiver_first) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        absl::Status status;
        if (transport.rank() == 0) {
          status = transport.Wait(transport.Send(1, Channel::kData, memory.data(), sent), Soon());
          if (status.ok() && sent <= comm::kEagerBytes) {  // ended when it began
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            return;
          }
          EXPECT_THAT(std::string(status.message()), AnyOf(at_sender, HasSubstr("rank 1 gave up: " + at_receiver)));
        } else {
          status = transport.Wait(transport.Receive(0, Channel::kData, memory.data(), received), Soon());
          EXPECT_THAT(std::string(status.message()), AnyOf(at_receiver, HasSubstr("rank 0 gave up: " + at_sender)));
        }
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
        transport.Cancel(status);
        transport.Quiesce();
      });
    }
  }
}

TEST(GlooTransport, DeadlineNamesThePeerAndTheBytes) {
  OnRanks(2, [](GlooTransport& transport) {
    if (transport.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      return;
    }
    char byte;
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = transport.Wait(transport.Receive(1, Channel::kData, &byte, 1), In(absl::Milliseconds(100)));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(350));
    EXPECT_EQ(status,
              absl::DeadlineExceededError("rank 1 answers, and has begun no operation; rank 1 has not sent 1 bytes for "
                                          "rank 0 in time"));
  });
}

TEST(GlooTransport, ALateRankNamesItsOtherGroup) {
  comm::MemoryStore store;
  auto middle = std::make_shared<comm::WaitBoard>();
  comm::testing::ExpectALateRankNamesItsOtherGroup(middle, [&](int rank) {
    return GlooTransport::Connect({.store = &store,
                                   .rank = rank,
                                   .world_size = 3,
                                   .timeout = absl::Seconds(20),
                                   .waits = rank == 1 ? middle : nullptr});
  });
}

TEST(GlooTransport, CancelFromAnotherThreadEndsAWaitAndTellsThePeers) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    OnRanks(3, [&](GlooTransport& transport) {
      std::atomic<int> failed_rank{-1};
      transport.OnPeerFailed([&](int rank, const absl::Status&) { failed_rank = rank; });
      char byte;
      if (transport.rank() == 1) {
        std::thread other([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(300 * repeat));
          transport.Cancel(absl::FailedPreconditionError("the user said stop"));
          transport.Cancel(absl::InternalError("a second cause"));
        });
        const absl::Status status = transport.Wait(transport.Receive(0, Channel::kData, &byte, 1), Soon());
        EXPECT_EQ(status, absl::FailedPreconditionError("the user said stop"));
        other.join();
        const Transfer late = transport.Send(0, Channel::kData, &byte, 1);
        EXPECT_EQ(transport.Wait(late, Soon()), absl::FailedPreconditionError("the user said stop"));
        transport.Quiesce();
        return;
      }
      const absl::Status status = transport.Wait(transport.Receive(1, Channel::kData, &byte, 1), Soon());
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 gave up: the user said stop"));
      for (int i = 0; i < 1000 && failed_rank < 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(failed_rank, 1);
      transport.OnPeerFailed(nullptr);
    });
  }
}

TEST(GlooTransport, LeavingIsNoFailure) {
  OnRanks(3, [](GlooTransport& transport) {
    std::atomic<int> failures{0};
    transport.OnPeerFailed([&](int, const absl::Status&) { ++failures; });
    std::vector<char> memory(1 << 20, static_cast<char>(transport.rank()));
    if (transport.rank() == 0) {
      const Transfer out = transport.Send(1, Channel::kData, memory.data(), static_cast<int64_t>(memory.size()));
      ASSERT_EQ(transport.Wait(out, Soon()), absl::OkStatus());
      return;
    }
    if (transport.rank() == 1) {
      const Transfer in = transport.Receive(0, Channel::kData, memory.data(), static_cast<int64_t>(memory.size()));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ASSERT_EQ(transport.Wait(in, Soon()), absl::OkStatus());
      EXPECT_EQ(memory, std::vector<char>(memory.size(), 0));
      const absl::Status status = transport.Wait(transport.Receive(0, Channel::kData, memory.data(), 1), Soon());
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 has left"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(failures, 0);
  });
}

TEST(GlooTransport, SplitsLiveOnWithoutTheirParent) {
  comm::MemoryStore store;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      auto parent = GlooTransport::Connect({.store = &store, .rank = rank, .world_size = 4, .timeout = absl::Seconds(20)});
      ASSERT_TRUE(parent.ok()) << parent.status();
      const std::vector<int> members = rank % 2 == 0 ? std::vector<int>{2, 0} : std::vector<int>{1, 3};
      const int place = members[0] == rank ? 0 : 1;
      auto half = (*parent)->Split({.members = members, .rank = place, .id = 1, .timeout = absl::Seconds(20)});
      ASSERT_TRUE(half.ok()) << half.status();
      parent->reset();
      int mine = rank, theirs = -1;
      const Transfer in = (*half)->Receive(1 - place, Channel::kData, &theirs, sizeof(theirs));
      const Transfer out = (*half)->Send(1 - place, Channel::kData, &mine, sizeof(mine));
      ASSERT_EQ((*half)->Wait(in, Soon()), absl::OkStatus());
      ASSERT_EQ((*half)->Wait(out, Soon()), absl::OkStatus());
      EXPECT_EQ(theirs, members[static_cast<size_t>(1 - place)]);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace zeroshard::backends
