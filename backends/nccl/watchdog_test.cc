// What the watchdog notices, and how it ends a run that NCCL does not let end.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/doubles/nccl_control.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/device/cuda/doubles/control.h"

namespace zeroshard::backends {
namespace {

using comm::ReduceOp;
using device::DType;
using testing::NcclGroup;

// A rank's calls, all of one small array.
struct Caller {
  explicit Caller(comm::Communicator& c) : rank(c), buffer(*c.device().Allocate(400, device::Use::kData, "caller")) {}
  comm::Work Sum(int64_t count) {
    const device::Array x = buffer.array(DType::kFloat32).Slice(0, count);
    return rank.AllReduce(x, x, ReduceOp::kSum);
  }
  comm::Communicator& rank;
  device::Buffer buffer;
};

// From step 2 on operations are not agreed upon before NCCL sees them.
constexpr int64_t kLaterStep = 5;

TEST(Watchdog, CountsTheDeadlineFromTheStartOnTheDevice) {
  NcclGroup group(2, {.timeout = absl::Milliseconds(300), .scratch_bytes = 1 << 12});
  group.Run([](comm::Communicator& rank) {
    Caller caller(rank);
    const auto compute = rank.device().MakeStream(device::StreamKind::kCompute);
    const auto ready = rank.device().MakeEvent();
    ready->Expect();
    const device::Array x = caller.buffer.array(DType::kFloat32);
    comm::Work late = rank.AllReduce(x, x, ReduceOp::kSum, {.after = {ready.get()}});
    std::this_thread::sleep_for(std::chrono::milliseconds(900));  // The input comes long after the call, on every rank.
    compute->Record(*ready);
    EXPECT_TRUE(late.Wait().ok()) << rank.status();
  });
}

TEST(Watchdog, NamesTheRankThatIsNotInTheOperation) {
  NcclGroup group(3, {.timeout = absl::Milliseconds(300), .scratch_bytes = 1 << 12});
  group.Run([](comm::Communicator& rank) {
    rank.device().recorder().SetStep(kLaterStep);
    Caller caller(rank);
    ASSERT_TRUE(caller.Sum(5).Wait().ok());
    if (rank.rank() == 1) return;
    const absl::Status told = caller.Sum(7).Wait();
    EXPECT_TRUE(absl::IsDeadlineExceeded(told)) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), "all-reduce #2 (sum, fp32, 7 elements), 28 bytes, over nccl")) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), "not in it, or do not answer: rank 1")) << told;
  });
}

// As the trainer waits: for CUDA, which knows of no deadline, with the operation queued before what it waits for.
TEST(Watchdog, EndsAHostThatBlocksBehindAnOperationOfARankThatIsGone) {
  for (const bool on_event : {false, true}) {
    NcclGroup group(2, {.timeout = absl::Milliseconds(300), .scratch_bytes = 1 << 12});
    group.Run([on_event](comm::Communicator& rank) {
      rank.device().recorder().SetStep(kLaterStep);
      Caller caller(rank);
      ASSERT_TRUE(caller.Sum(5).Wait().ok());
      if (rank.rank() == 1) return;
      const auto compute = rank.device().MakeStream(device::StreamKind::kCompute);
      const auto behind = rank.device().MakeEvent();
      caller.Sum(7).WaitOn(*compute);
      compute->Record(*behind);
      if (on_event) {
        behind->Synchronize();
      } else {
        compute->Synchronize();
      }
      EXPECT_TRUE(absl::IsDeadlineExceeded(rank.status())) << rank.status();
      EXPECT_TRUE(absl::StrContains(rank.status().message(), "rank 1")) << rank.status();
    });
  }
}

// By its deadline, and by an abort of the rank's own. The double ends the test where more is queued than a device's queue holds.
TEST(Watchdog, IsHeardThoughMoreIsCalledThanADevicesQueueHolds) {
  for (const bool aborts : {false, true}) {
    NcclGroup group(2, {.timeout = aborts ? absl::Minutes(5) : absl::Milliseconds(300), .scratch_bytes = 1 << 12});
    group.Run([aborts](comm::Communicator& rank) {
      rank.device().recorder().SetStep(kLaterStep);
      Caller caller(rank);
      ASSERT_TRUE(caller.Sum(8).Wait().ok());
      if (rank.rank() == 1) return;
      std::vector<comm::Work> works;
      for (int i = 0; i < comm::Communicator::kRing; ++i) works.push_back(caller.Sum(8));
      if (aborts) rank.Abort(absl::InternalError("the test says so"));
      for (comm::Work& work : works) EXPECT_FALSE(work.Wait().ok());
      EXPECT_EQ(absl::IsDeadlineExceeded(rank.status()), !aborts) << rank.status();
    });
  }
}

// A store that answers nobody, as a rank 0's that is stopped, from the moment it is told so until it is told to go on.
class SilentStore final : public comm::Store {
 public:
  void SetSilent(bool silent) {
    std::lock_guard<std::mutex> lock(mutex_);
    silent_ = silent;
    changed_.notify_all();
  }
  bool silent() {
    std::lock_guard<std::mutex> lock(mutex_);
    return silent_;
  }
  std::string Describe() const override { return "the store of the test"; }

 private:
  void Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !silent_; });
  }
  absl::Status DoSet(std::string_view key, std::string_view value) override {
    Await();
    return store_.Set(key, value);
  }
  absl::StatusOr<std::optional<std::string>> DoTryGet(std::string_view key) override {
    Await();
    return store_.TryGet(key);
  }
  absl::StatusOr<int64_t> DoAdd(std::string_view key, int64_t delta) override {
    Await();
    return store_.Add(key, delta);
  }
  void DoPause(int /*round*/, absl::Duration limit) override { absl::SleepFor(std::min(limit, absl::Milliseconds(1))); }

  comm::MemoryStore store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool silent_ = false;
};

TEST(Watchdog, AbortsThoughTheStoreDoesNotAnswer) {
  SilentStore store;
  const auto zero = testing::DoubleDevice(0), one = testing::DoubleDevice(1);
  auto ranks = testing::JoinRanks(
      {zero.get(), one.get()}, store,
      {.timeout = absl::Milliseconds(300), .scratch_bytes = 1 << 12, .leave_patience = absl::ZeroDuration()});
  for (auto& rank : ranks) ASSERT_TRUE(rank.ok()) << rank.status();
  for (auto& rank : ranks) (*rank)->device().recorder().SetStep(kLaterStep);
  std::thread first([&] { EXPECT_TRUE(Caller(**ranks[0]).Sum(5).Wait().ok()); });
  EXPECT_TRUE(Caller(**ranks[1]).Sum(5).Wait().ok());
  first.join();
  store.SetSilent(true);
  const absl::Status told = Caller(**ranks[0]).Sum(7).Wait();  // Rank 1 does not come.
  EXPECT_TRUE(store.silent());
  EXPECT_TRUE(absl::IsDeadlineExceeded(told)) << told;
  EXPECT_TRUE(absl::StrContains(told.message(),
                                "7 elements), 28 bytes, over nccl: it has not ended within 300ms of its start "
                                "on the device; the store of the test under nccl/1/, where ranks say what they are in, does "
                                "not answer"))
      << told;
  store.SetSilent(false);
}

TEST(Watchdog, TellsAfterAStepThatRanksCalledOtherOperations) {
  NcclGroup group(2);
  group.Run([](comm::Communicator& rank) {
    Caller caller(rank);
    absl::Status told;
    // NCCL's calls are alike, so that the double has nothing to say; what they are for is not.
    for (int64_t step = kLaterStep; told.ok() && step < kLaterStep + 500; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      rank.device().recorder().SetStep(step);
      const device::Array x = caller.buffer.array(DType::kFloat32).Slice(0, 8);
      told = rank.AllReduce(x, x, rank.rank() == 1 && step == kLaterStep + 1 ? ReduceOp::kAverage : ReduceOp::kSum).Wait();
    }
    EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), " rank 1 had called other operations than rank 0")) << told;
  });
}

// From step 2 on nothing is agreed upon before; a call of a few bytes is recorded late, and is of its step all the same.
TEST(Watchdog, KnowsTheStepOfACallOfAFewBytes) {
  comm::MemoryStore store;
  const auto zero = testing::DoubleDevice(0), one = testing::DoubleDevice(1);
  auto ranks =
      testing::JoinRanks({zero.get(), one.get()}, store,
                         {.timeout = absl::Seconds(30), .scratch_bytes = 1 << 12, .leave_patience = absl::ZeroDuration()});
  std::vector<std::thread> threads;
  for (auto& rank : ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status();
    threads.emplace_back([&rank] {
      for (const int64_t step : {int64_t{0}, kLaterStep}) {
        (*rank)->device().recorder().SetStep(step);
        EXPECT_TRUE((*rank)->Barrier({.wait_at_once = true}).Wait().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(store.TryGet("nccl/1/op/1/0")->has_value());
  EXPECT_FALSE(store.TryGet("nccl/1/op/2/0")->has_value());
}

TEST(Watchdog, TellsWhyAnotherRankGaveUpInTheMiddle) {
  NcclGroup group(2);
  group.Run([](comm::Communicator& rank) {
    rank.device().recorder().SetStep(kLaterStep);
    Caller caller(rank);
    ASSERT_TRUE(caller.Sum(5).Wait().ok());
    if (rank.rank() == 1) return rank.Abort(absl::InternalError("the test says so"));
    const absl::Status told = caller.Sum(7).Wait();
    EXPECT_TRUE(absl::IsUnavailable(told)) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), "rank 1 gave up: the test says so")) << told;
  });
}

TEST(Watchdog, EndsAllWorkWhereTheDeviceIsBroken) {
  NcclGroup group(2);
  group.Run([](comm::Communicator& rank) {
    rank.device().recorder().SetStep(kLaterStep);
    Caller caller(rank);
    ASSERT_TRUE(caller.Sum(5).Wait().ok());
    if (rank.rank() == 1) device::cuda::doubles::BreakDevice(1, cudaErrorIllegalAddress);
    const absl::Status told = caller.Sum(7).Wait();
    EXPECT_FALSE(told.ok());
    EXPECT_TRUE(absl::StrContains(told.message(), "an illegal memory access was encountered")) << told;
  });
  device::cuda::doubles::MendDevices();
}

// Its fault comes while the operation waits for another rank: all events are done then.
TEST(Watchdog, TakesNothingForDoneOnADeviceThatBreaksMeanwhile) {
  NcclGroup group(2);
  group.Run([](comm::Communicator& rank) {
    rank.device().recorder().SetStep(kLaterStep);
    Caller caller(rank);
    ASSERT_TRUE(caller.Sum(5).Wait().ok());
    if (rank.rank() == 0) return;
    const auto compute = rank.device().MakeStream(device::StreamKind::kCompute);
    comm::Work work = caller.Sum(7);
    work.WaitOn(*compute);  // So all of it is queued.
    device::cuda::doubles::BreakDevice(1, cudaErrorIllegalAddress);
    const absl::Status told = work.Wait();
    EXPECT_TRUE(absl::StrContains(told.message(), "an illegal memory access was encountered")) << told;
  });
  device::cuda::doubles::MendDevices();
}

TEST(Watchdog, IsNotNeededToDropAPartWhoseOperationsHaveEnded) {
  NcclGroup group(2);
  group.Run([](comm::Communicator& rank) {
    const auto compute = rank.device().MakeStream(device::StreamKind::kCompute);
    for (int i = 0; i < 10; ++i) {
      auto part = rank.Split(0, rank.rank());
      ASSERT_TRUE(part.ok()) << part.status();
      Caller caller(**part);
      caller.Sum(7).WaitOn(*compute);
      compute->Synchronize();
      part->reset();
      ASSERT_TRUE(rank.status().ok()) << rank.status();
      ASSERT_TRUE(rank.Barrier().Wait().ok()) << rank.status();
    }
  });
}

// NCCL's threads may still be sending what others' operations wait for, where a rank's own have ended.
TEST(Watchdog, AbortsWhatIsDroppedWhenAllHaveDroppedIt) {
  comm::MemoryStore store;
  const auto zero = testing::DoubleDevice(0), one = testing::DoubleDevice(1);
  auto ranks =
      testing::JoinRanks({zero.get(), one.get()}, store,
                         {.timeout = absl::Seconds(30), .scratch_bytes = 1 << 12, .leave_patience = absl::Minutes(5)});
  for (auto& rank : ranks) ASSERT_TRUE(rank.ok()) << rank.status();
  const int64_t before = doubles::NcclAborts();
  std::thread first([&] { ranks[0]->reset(); });
  while (!store.TryGet("nccl/1/left/0")->has_value()) std::this_thread::yield();
  EXPECT_EQ(doubles::NcclAborts(), before);
  ranks[1]->reset();
  first.join();
  EXPECT_EQ(doubles::NcclAborts(), before + 2);
}

TEST(Watchdog, IsNotThereForAPartOfOneRankWhichGoesAllTheSame) {
  NcclGroup group(2);
  const int64_t before = doubles::NcclAborts();
  group.Run([](comm::Communicator& rank) {
    const auto alone = rank.Split(rank.rank(), 0);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_TRUE((*alone)->Barrier().Wait().ok());
  });
  EXPECT_EQ(doubles::NcclAborts(), before + 2);
}

TEST(Watchdog, LeavesTheProcessWhereTheAbortDoesNotComeBack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        doubles::SetNcclAbortHangs(true);
        NcclGroup group(
            2, {.timeout = absl::Milliseconds(100), .scratch_bytes = 1 << 12, .abort_patience = absl::Milliseconds(200)});
        Caller caller(group.rank(0));
        caller.Sum(7).Wait().IgnoreError();
      },
      ::testing::ExitedWithCode(4), "error: rank 0, all-reduce #1 .*ncclCommAbort has not come back within 200ms");
}

}  // namespace
}  // namespace zeroshard::backends
