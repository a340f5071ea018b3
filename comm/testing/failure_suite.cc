// The part of the suite on what goes wrong (FailureTest).

#include <chrono>
#include <functional>
#include <latch>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/testing/collective_suite.h"

namespace zeroshard::comm::testing {
namespace {

using device::Array;
using device::DType;
using std::chrono::steady_clock;

// Enough memory for any call of these tests.
constexpr int64_t kBytes = 64 << 10;

// A rank and memory for its calls.
struct Caller {
  explicit Caller(Communicator& c) : rank(c), buffer(*c.device().Allocate(kBytes, device::Use::kData, "caller")) {}
  Array Floats(int64_t first, int64_t count) const { return buffer.array(DType::kFloat32).Slice(first, count); }
  Array Of(DType dtype, int64_t count) const { return buffer.array(dtype).Slice(0, count); }
  Work Sum(int64_t count) { return rank.AllReduce(Floats(0, count), Floats(0, count), ReduceOp::kSum); }

  Communicator& rank;
  device::Buffer buffer;
};

using Call = std::function<absl::Status(Caller&)>;

absl::Status SumOf(Caller& caller, int64_t count) { return caller.Sum(count).Wait(); }
absl::Status Broadcast(Caller& caller, int root) {
  return caller.rank.Broadcast(caller.Floats(0, 10), caller.Floats(0, 10), root).Wait();
}
absl::Status Segments(Caller& caller, int64_t first) {
  const Segment segments[] = {{caller.Floats(0, first), caller.Floats(0, first)},
                              {caller.Floats(100, 10 - first), caller.Floats(100, 10 - first)}};
  return caller.rank.AllReduce(segments, ReduceOp::kSum).Wait();
}

struct Disagreement {
  const char* name;
  Call rank_0;
  Call others;
  const char* called_by_rank_0;
  const char* called_by_others;
};

std::vector<Disagreement> Disagreements() {
  const Call sum_10 = [](Caller& c) { return SumOf(c, 10); };
  return {
      {"another operation", sum_10, [](Caller& c) { return Broadcast(c, 0); }, "all-reduce #2 (sum", "broadcast #2 (root 0"},
      {"no operation more", sum_10, [](Caller& c) { return c.rank.Finalize(); }, "all-reduce #2", "finalize #2"},
      {"a barrier", sum_10, [](Caller& c) { return c.rank.Barrier().Wait(); }, "all-reduce #2", "barrier #2"},
      {"n and n + 2", sum_10, [](Caller& c) { return SumOf(c, 12); }, "10 elements", "12 elements"},
      {"n and 80 n", sum_10, [](Caller& c) { return SumOf(c, 800); }, "10 elements", "800 elements"},
      {"nothing and something", [](Caller& c) { return SumOf(c, 0); }, sum_10, "fp32, 0 elements", "10 elements"},
      {"another reduction", sum_10,
       [](Caller& c) { return c.rank.AllReduce(c.Floats(0, 10), c.Floats(0, 10), ReduceOp::kMax).Wait(); }, "(sum", "(max"},
      {"another dtype", sum_10,
       [](Caller& c) { return c.rank.AllReduce(c.Of(DType::kInt32, 10), c.Of(DType::kInt32, 10), ReduceOp::kSum).Wait(); },
       "fp32, 10", "int32, 10"},
      {"another root", [](Caller& c) { return Broadcast(c, 0); }, [](Caller& c) { return Broadcast(c, 1); }, "root 0",
       "root 1"},
      {"other segments", [](Caller& c) { return Segments(c, 3); }, [](Caller& c) { return Segments(c, 4); },
       "10 elements in 2 segments", "layout of segments"},
  };
}

TEST_P(FailureTest, TellsEveryRankWhatBothSidesOfADisagreementCalled) {
  for (const int world_size : {2, 3}) {
    for (const ScheduleChoice schedules : {ScheduleChoice::kDirect, ScheduleChoice::kHalving}) {
      for (const Disagreement& d : Disagreements()) {
        Group group(GetParam(), world_size, {.timeout = absl::Seconds(20), .schedules = schedules});
        group.Run([&](Communicator& rank) {
          Caller caller(rank);
          ASSERT_TRUE(caller.Sum(5).Wait().ok());
          const absl::Status told = rank.rank() == 0 ? d.rank_0(caller) : d.others(caller);
          EXPECT_TRUE(absl::IsFailedPrecondition(told)) << d.name << ": " << told;
          EXPECT_TRUE(absl::StrContains(told.message(), "rank 0 called")) << told;
          EXPECT_TRUE(absl::StrContains(told.message(), d.called_by_rank_0)) << told;
          EXPECT_TRUE(absl::StrContains(told.message(), d.called_by_others)) << told;
          EXPECT_EQ(caller.Sum(5).Wait(), told);  // The first error stays.
        });
      }
    }
  }
}

TEST_P(FailureTest, RefusesBadArgumentsAndStaysUsable) {
  Group group(GetParam(), 2);
  group.Run([](Communicator& rank) {
    Caller c(rank);
    const Array x = c.Floats(0, 100);
    const Array y = c.Floats(200, 100);
    const Array bytes = c.Of(DType::kUint8, 100);
    const Array ints = c.Of(DType::kInt32, 100);
    const Array doubles = c.Of(DType::kFloat64, 100);
    const Array null(0, 100, DType::kFloat32);
    const auto refused = [](Work work, const char* why) {
      const absl::Status status = work.Wait();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), why)) << status;
      EXPECT_TRUE(work.event().Done());
    };
    refused(rank.AllReduce(x, y.Slice(0, 99), ReduceOp::kSum), "in has 100 elements and out has 99");
    refused(rank.AllReduce(x, x.Slice(1, 100), ReduceOp::kSum), "overlap");
    refused(rank.AllReduce(bytes, bytes, ReduceOp::kSum), "cannot reduce uint8 into uint8");
    refused(rank.AllReduce(ints, ints, ReduceOp::kAverage), "average of int32");
    refused(rank.AllReduce(doubles, y, ReduceOp::kSum), "cannot reduce fp64 into fp32");
    refused(rank.AllReduce(null, y, ReduceOp::kSum), "null address");
    refused(rank.AllReduce(Array(x.address(), -1, DType::kFloat32), y, ReduceOp::kSum), "-1 elements");
    refused(rank.ReduceScatter(x, y.Slice(0, 49), ReduceOp::kSum), "it must have 98");
    refused(rank.ReduceScatter(x, x.Slice(rank.rank() == 0 ? 50 : 0, 50), ReduceOp::kSum), "overlap");
    refused(rank.AllGather(x.Slice(0, 50), Array(null.address(), 100, DType::kFloat32)), "null address");
    refused(rank.AllGather(ints.Slice(0, 50), y), "must be of one dtype");
    refused(rank.AllGather(y.Slice(10, 50), y), "overlap");
    refused(rank.Broadcast(x, x, 2), "root 2");
    refused(rank.Reduce(x, x, ReduceOp::kSum, -1), "root -1");
    const Segment strided[] = {{x, y.Slice(0, 60), 40}};
    refused(rank.ReduceScatter(strided, ReduceOp::kSum), "stride 40 is less than its 60");
    const Segment apart[] = {{x, x, 0}, {y.Slice(0, 10), x.Slice(5, 10), 0}};
    refused(rank.AllReduce(apart, ReduceOp::kSum), "overlap");
    const Segment mixed[] = {{x, x, 0},
                             {c.Of(DType::kInt32, 350).Slice(300, 50), c.Of(DType::kInt32, 350).Slice(300, 50), 0}};
    refused(rank.AllReduce(mixed, ReduceOp::kSum), "another dtype");
    const int64_t huge = int64_t{3'000'000'000'000'000'000};
    refused(rank.ReduceScatter(Array(4096, huge, DType::kFloat32), Array(64, huge, DType::kFloat32), ReduceOp::kSum),
            "beyond memory");
    EXPECT_TRUE(rank.status().ok());
    EXPECT_TRUE(c.Sum(100).Wait().ok());
  });
}

TEST_P(FailureTest, NamesTheRankThatNeverCame) {
  for (const int world_size : {2, 3}) {
    Group group(GetParam(), world_size, {.timeout = absl::Milliseconds(300)});
    const auto begin = steady_clock::now();
    group.Run([&](Communicator& rank) {
      Caller caller(rank);
      ASSERT_TRUE(caller.Sum(5).Wait().ok());
      if (rank.rank() == 1) return;
      const absl::Status told = caller.Sum(7).Wait();
      EXPECT_FALSE(told.ok());
      EXPECT_TRUE(absl::StrContains(told.message(), "rank 1")) << told;
      EXPECT_TRUE(absl::StrContains(told.message(), "all-reduce #2 (sum, fp32, 7 elements), 28 bytes")) << told;
    });
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(5));
  }
}

TEST_P(FailureTest, NamesTheRankThatLeft) {
  Group group(GetParam(), 2, {.timeout = absl::Seconds(30)});
  const auto begin = steady_clock::now();
  group.Run([](Communicator& rank) { EXPECT_TRUE(rank.Barrier().Wait().ok()); });
  group.Drop(1);
  Caller caller(group.rank(0));
  const absl::Status told = caller.Sum(7).Wait();
  EXPECT_TRUE(absl::IsUnavailable(told)) << told;
  EXPECT_TRUE(absl::StrContains(told.message(), "rank 1")) << told;
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_P(FailureTest, EndsEveryWorkOnAbortFromAnotherThread) {
  for (int round = 0; round < 25; ++round) {
    Group group(GetParam(), 2, {.timeout = absl::Seconds(30)});
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
      group.rank(1).Abort(absl::FailedPreconditionError("the test says so"));
      group.rank(1).Abort(absl::FailedPreconditionError("a second cause"));
    });
    group.Run([&](Communicator& rank) {
      Caller caller(rank);
      std::vector<Work> works;
      do {
        works.clear();
        for (int i = 0; i < 8; ++i) works.push_back(caller.Sum(4000));
        works.back().Wait().IgnoreError();
      } while (rank.status().ok());
      for (Work& work : works) work.Wait().IgnoreError();  // Ends.
      const absl::Status told = caller.Sum(1).Wait();
      EXPECT_TRUE(absl::StrContains(told.message(), "the test says so")) << told;
      EXPECT_EQ(absl::StrContains(told.message(), "rank 1 gave up"), rank.rank() == 0) << told;
    });
    aborter.join();
  }
}

TEST_P(FailureTest, AbortsOnOneRankAloneAndAnswersAfterwards) {
  Group group(GetParam(), 3, {.timeout = absl::Seconds(30)});
  Group other(GetParam(), 3, {.timeout = absl::Seconds(30)});
  group.rank(2).Abort(absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(group.rank(2).status()));
  group.Run([](Communicator& rank) {
    Caller caller(rank);
    const absl::Status told = caller.Sum(3).Wait();
    EXPECT_TRUE(absl::StrContains(told.message(), "aborted")) << told;
  });
  other.Run([](Communicator& rank) { EXPECT_TRUE(rank.Barrier().Wait().ok()); });  // Another communicator does not mind.
}

// Whoever waits for the last of several operations may free what all of them use.
TEST_P(FailureTest, EndsWhatIsRefusedAfterWhatIsInFlight) {
  Group group(GetParam(), 2, {.timeout = absl::Seconds(30)});
  Communicator& rank = group.rank(0);
  Caller caller(rank);
  const std::unique_ptr<device::Event> filled = rank.device().MakeEvent();
  const std::unique_ptr<device::Stream> stream = rank.device().MakeStream(device::StreamKind::kCompute);
  filled->Expect();
  Work held = rank.AllReduce(caller.Floats(0, 9), caller.Floats(0, 9), ReduceOp::kSum, {.after = {filled.get()}});
  rank.Abort(absl::FailedPreconditionError("the test says so"));
  Work refused = caller.Sum(1);
  EXPECT_FALSE(refused.event().Done());
  stream->Record(*filled);
  EXPECT_FALSE(refused.Wait().ok());
  EXPECT_TRUE(refused.event().Done());
  EXPECT_FALSE(held.Wait().ok());
}

TEST_P(FailureTest, AbortsOneOfTwoCommunicatorsInFlight) {
  Group group(GetParam(), 2, {.timeout = absl::Seconds(30)});
  Group others(GetParam(), 2, {.timeout = absl::Seconds(30)});
  group.Run([&others](Communicator& rank) {
    Communicator& other = others.rank(rank.rank());
    Caller aborted(rank), lives(other);
    for (int round = 0; round < 20; ++round) {
      std::vector<Work> works;
      for (int i = 0; i < 4; ++i) {
        if (rank.status().ok()) aborted.Sum(3000);
        works.push_back(lives.Sum(3000));
      }
      if (round == 5 && rank.rank() == 1) rank.Abort(absl::FailedPreconditionError("the test says so"));
      for (Work& work : works) EXPECT_TRUE(work.Wait().ok()) << round << ": " << other.status();
    }
    EXPECT_FALSE(aborted.Sum(1).Wait().ok());
    EXPECT_TRUE(other.Barrier().Wait().ok());
  });
}

TEST_P(FailureTest, DropsWithOperationsInFlight) {
  for (const bool at_once : {false, true}) {
    Group group(GetParam(), 2, {.timeout = absl::Seconds(30)});
    const auto begin = steady_clock::now();
    Caller caller(group.rank(0));
    for (int i = 0; i < 3; ++i)
      group.rank(0).AllReduce(caller.Floats(0, 9), caller.Floats(0, 9), ReduceOp::kSum, {.wait_at_once = at_once});
    caller.buffer = {};
    group.Drop(0);
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(10));
  }
}

TEST_P(FailureTest, RefusesCallsAfterFinalize) {
  for (const int world_size : {1, 2}) {
    Group group(GetParam(), world_size);
    group.Run([](Communicator& rank) {
      Caller caller(rank);
      Work before = caller.Sum(100);
      EXPECT_TRUE(rank.Finalize().ok());
      EXPECT_TRUE(before.event().Done());
      EXPECT_TRUE(absl::IsFailedPrecondition(caller.Sum(1).Wait()));
      EXPECT_TRUE(absl::IsFailedPrecondition(rank.Finalize()));
      EXPECT_TRUE(rank.status().ok());
    });
  }
}

TEST_P(FailureTest, RefusesAColorThatIsNone) {
  Group group(GetParam(), 2);
  group.Run([](Communicator& rank) {
    const auto part = rank.Split(rank.rank() == 1 ? -7 : 0, 0);
    EXPECT_TRUE(absl::IsInvalidArgument(part.status())) << part.status();
    EXPECT_TRUE(absl::StrContains(part.status().message(), "rank 1 gave color -7")) << part.status();
    EXPECT_TRUE(rank.Barrier().Wait().ok());
  });
}

TEST_P(FailureTest, OfAPartIsOneOfTheWhole) {
  Group group(GetParam(), 4);
  group.Run([](Communicator& rank) {
    const auto part = rank.Split(rank.rank() / 2, rank.rank());
    ASSERT_TRUE(part.ok()) << part.status();
    if (rank.rank() == 3) (*part)->Abort(absl::UnavailableError("has had enough"));
    const absl::Status whole = rank.Barrier().Wait();
    EXPECT_TRUE(absl::IsUnavailable(whole)) << whole;
    EXPECT_TRUE(absl::StrContains(whole.message(), rank.rank() == 3 ? "has had enough" : "rank 3 gave up: has had enough"))
        << whole;
    EXPECT_FALSE((*part)->status().ok());
  });
}

TEST_P(FailureTest, OfTheWholeIsOneOfItsParts) {
  Group group(GetParam(), 3);
  std::latch split(3);
  group.Run([&](Communicator& rank) {
    const auto part = rank.Split(rank.rank() == 0 ? 0 : 1, rank.rank());
    split.arrive_and_wait();
    ASSERT_TRUE(part.ok()) << part.status();
    if (rank.rank() == 0) rank.Abort(absl::UnavailableError("has had enough"));
    absl::Status ended;
    while (ended.ok()) ended = (*part)->Barrier().Wait();
    EXPECT_TRUE(absl::StrContains(ended.message(), "has had enough")) << ended;
  });
}

TEST_P(FailureTest, InAPartNamesRanksOfTheWhole) {
  Group group(GetParam(), 4);
  group.Run([](Communicator& rank) {
    const auto part = rank.Split(rank.rank() / 2, rank.rank());
    ASSERT_TRUE(part.ok()) << part.status();
    if (rank.rank() < 2) return;
    const auto buffer = rank.device().Allocate(4 * 8, device::Use::kData, "x");
    const device::Array x = buffer->array(device::DType::kFloat32).Slice(0, 2 * rank.rank());
    const absl::Status differ = (*part)->AllReduce(x, x, ReduceOp::kSum).Wait();
    EXPECT_TRUE(absl::IsFailedPrecondition(differ)) << differ;
    EXPECT_TRUE(absl::StrContains(differ.message(), "rank 2 called")) << differ;
    EXPECT_TRUE(absl::StrContains(differ.message(), "rank 3 called")) << differ;
    EXPECT_TRUE(absl::StrContains(differ.message(), " in group 2-3, ")) << differ;
  });
}

}  // namespace
}  // namespace zeroshard::comm::testing
