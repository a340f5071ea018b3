#include "zeroshard/comm/testing/other_group_case.h"

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::comm::testing {
namespace {

using std::chrono::milliseconds;

constexpr auto kSoon = std::chrono::seconds(20);

// Whether `holds` came to hold in time.
bool Until(const std::function<bool()>& holds) {
  for (int look = 0; look < 20'000 && !holds(); ++look) std::this_thread::sleep_for(milliseconds(1));
  return holds();
}

class Trio {
 public:
  explicit Trio(std::shared_ptr<WaitBoard> middle) : middle_(std::move(middle)) {}

  // Groups 0 1 and 1 2: rank 0 waits for rank 1, which waits for rank 2.
  void Run(int rank, Transport& whole) {
    std::unique_ptr<Transport> low, high;
    if (rank < 2) low = Split(whole, {0, 1}, rank, 1);
    if (rank > 0) high = Split(whole, {1, 2}, rank - 1, 2);
    if ((rank < 2 && low == nullptr) || (rank > 0 && high == nullptr)) return;
    const Deadline soon = std::chrono::steady_clock::now() + kSoon;
    if (rank == 0) {
      Ask(*low);
    } else if (rank == 1) {
      EXPECT_EQ(high->Wait(high->Receive(1, Channel::kData, &bytes_[1], 1), soon), absl::OkStatus());
    } else {
      EXPECT_TRUE(Until([this] { return answered_.load(); }));
      EXPECT_EQ(high->Wait(high->Send(0, Channel::kData, &bytes_[2], 1), soon), absl::OkStatus());
    }
  }

 private:
  static std::unique_ptr<Transport> Split(Transport& whole, const std::array<int, 2>& members, int rank, uint64_t id) {
    auto part = whole.Split({.members = members, .rank = rank, .id = id, .timeout = absl::Seconds(20)});
    EXPECT_TRUE(part.ok()) << part.status();
    return part.ok() ? *std::move(part) : nullptr;
  }

  void Ask(Transport& low) {
    const WaitPlace asks(middle_);
    EXPECT_TRUE(Until([&] { return asks.Elsewhere() == 2; }));
    const absl::Status late =
        low.Wait(low.Receive(1, Channel::kData, &bytes_[0], 1), std::chrono::steady_clock::now() + milliseconds(100));
    EXPECT_THAT(std::string(late.message()),
                ::testing::HasSubstr("rank 1 answers, and has begun no operation; it waits for rank 2 in another group"));
    low.Cancel(late);
    low.Quiesce();
    answered_ = true;
  }

  const std::shared_ptr<WaitBoard> middle_;
  std::atomic<bool> answered_{false};
  std::array<char, 3> bytes_ = {};
};

}  // namespace

void ExpectALateRankNamesItsOtherGroup(std::shared_ptr<WaitBoard> middle,
                                       const std::function<absl::StatusOr<std::unique_ptr<Transport>>(int rank)>& connect) {
  Trio trio(std::move(middle));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      auto whole = connect(rank);
      ASSERT_TRUE(whole.ok()) << whole.status();
      trio.Run(rank, **whole);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace zeroshard::comm::testing
