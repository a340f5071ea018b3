#include "zeroshard/integration_tests/faults/fault_suite.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "zeroshard/comm/rank_watch.h"
#include "zeroshard/integration_tests/faults/random_operations.h"
#include "zeroshard/integration_tests/faults/thread_ranks.h"

namespace zeroshard::integration_tests {

int Seeds(int usual) {
  const char* asked = getenv("ZS_SEEDS");
  return asked == nullptr ? usual : std::max(1, atoi(asked));
}

std::unique_ptr<Ranks> Carrier::MakeRanks() const {
  return processes ? MakeProcessRanks(backend, environment) : MakeThreadRanks();
}

namespace {

using device::Array;
using device::DType;
using ::testing::HasSubstr;

// Operations of RunOperations that are begun and not counted yet; Finalize comes after them.
constexpr int64_t kMostInFlight = 3;

// What a seed decides.
struct Plan {
  explicit Plan(int seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed) * 977 + 5);
    world_size = 2 + static_cast<int>(random() % 4);
    victim = static_cast<int>(random() % static_cast<uint64_t>(world_size));
    at_operation = static_cast<int64_t>(random() % 40 + 1);
    more_us = static_cast<useconds_t>(random() % 20000);
    operations.seed = random();
    operations.registered = random() % 2 == 0;
  }
  std::string Describe() const {
    return absl::StrCat("rank ", victim, " of ", world_size, ", at its operation ", at_operation, " and ", more_us,
                        " us more, ", operations.registered ? "registered" : "plain", " memory");
  }

  int world_size;
  int victim;
  int64_t at_operation;
  useconds_t more_us;
  OperationsOptions operations;
};

// The ranks of one test, which run random operations, and what becomes of them.
class Scene {
 public:
  explicit Scene(const std::tuple<Carrier, int>& parameter)
      : plan(std::get<1>(parameter)),
        carrier_(std::get<0>(parameter)),
        trace_(__FILE__, __LINE__, plan.Describe()),
        ranks_(carrier_.MakeRanks()) {}

  void Start(absl::Duration timeout, const Ranks::Body& body) { ranks_->Start(plan.world_size, timeout, body); }
  void StartOperations(absl::Duration timeout) {
    Start(timeout, [options = plan.operations](comm::Communicator& rank, RankReport& report) {
      return RunOperations(rank, report, options);
    });
  }
  bool TheMomentCame() {
    if (!ranks_->AwaitOperations(plan.victim, plan.at_operation)) return false;
    usleep(plan.more_us);
    return true;
  }

  // All others have ended by `limit_ms`, by themselves, and without a wrong number.
  void ExpectEnd(const std::vector<int>& others, int64_t limit_ms) {
    for (const int rank : others) {
      ASSERT_TRUE(ranks_->Ended(rank, limit_ms))
          << "rank " << rank << " hangs after " << ranks_->report(rank).operations << " operations";
      EXPECT_EQ(ranks_->Crash(rank), "") << "rank " << rank;
      EXPECT_EQ(ranks_->report(rank).wrong, 0) << "rank " << rank;
    }
  }
  // What `rank` says that the victim did last: what it began, and, where that lies in memory which outlives the victim, nothing that
  // it had ended long before; elsewhere nothing that `rank` had ended long before.
  void ExpectLastOperation(int rank) {
    const std::string message = ranks_->message(rank);
    const size_t said = message.find(comm::kItsLastOperation);
    ASSERT_NE(said, std::string::npos) << message;
    const size_t number = message.find('#', said);
    int64_t last = -1;
    ASSERT_TRUE(absl::SimpleAtoi(message.substr(number + 1, message.find_first_of(" ,;", number) - number - 1), &last))
        << message;
    const int64_t ended = ranks_->report(plan.victim).operations;
    const int64_t ended_by_both = std::min(ended, ranks_->report(rank).operations.load()) - kMostInFlight;
    EXPECT_GE(last, carrier_.last_is_exact ? ended : std::max<int64_t>(ended_by_both, 1)) << message;
    EXPECT_LE(last, ended + kMostInFlight) << message;
  }
  std::vector<int> Survivors() const {
    std::vector<int> survivors;
    for (int rank = 0; rank < plan.world_size; ++rank) {
      if (rank != plan.victim) survivors.push_back(rank);
    }
    return survivors;
  }
  std::vector<int> All() const {
    std::vector<int> all = Survivors();
    all.push_back(plan.victim);
    return all;
  }

  Ranks& ranks() { return *ranks_; }
  const Carrier& carrier() const { return carrier_; }

  Plan plan;

 private:
  const Carrier carrier_;
  const ::testing::ScopedTrace trace_;
  const std::unique_ptr<Ranks> ranks_;
};

TEST_P(FaultTest, EverySurvivorOfAKilledRankNamesItInTime) {
  Scene scene(GetParam());
  scene.StartOperations(absl::Seconds(30));
  ASSERT_TRUE(scene.TheMomentCame()) << scene.ranks().message(scene.plan.victim);
  const int64_t killed_ms = NowMs();
  scene.ranks().Kill(scene.plan.victim);
  scene.ExpectEnd(scene.Survivors(), killed_ms + 10000);
  int64_t last_ms = 0;
  for (const int rank : scene.Survivors()) {
    const RankReport& report = scene.ranks().report(rank);
    EXPECT_LT(report.noticed_ms - killed_ms, scene.carrier().notices_death_in_ms);
    EXPECT_EQ(report.code, absl::StatusCode::kUnavailable);
    EXPECT_THAT(scene.ranks().message(rank), HasSubstr(absl::StrCat("rank ", scene.plan.victim, " is gone")));
    scene.ExpectLastOperation(rank);
    last_ms = std::max(last_ms, report.noticed_ms - killed_ms);
  }
  RecordProperty("last_survivor_ms", absl::StrCat(last_ms));
}

TEST_P(FaultTest, AStoppedRankIsNamedAtTheDeadlineAndNobodySpins) {
  int64_t timeout_ms = 2000;
  auto started = std::make_unique<Scene>(GetParam());
  started->StartOperations(absl::Milliseconds(timeout_ms));
  // Where the machine is busy with other things ranks may not even have met by then, and nothing has befallen any.
  while (!started->TheMomentCame() && timeout_ms < 16000) {
    timeout_ms *= 2;
    started = nullptr;
    started = std::make_unique<Scene>(GetParam());
    started->StartOperations(absl::Milliseconds(timeout_ms));
  }
  Scene& scene = *started;
  ASSERT_EQ(scene.ranks().report(scene.plan.victim).ended_ms, 0) << scene.ranks().message(scene.plan.victim);
  const int64_t stopped_ms = NowMs();
  scene.ranks().Stop(scene.plan.victim);
  usleep(300'000);
  std::vector<int64_t> cpu_ms;
  for (const int rank : scene.Survivors()) cpu_ms.push_back(scene.ranks().CpuMs(rank));
  const int64_t measured_ms = NowMs();
  scene.ExpectEnd(scene.Survivors(), stopped_ms + timeout_ms + 18000);
  size_t index = 0;
  for (const int rank : scene.Survivors()) {
    const RankReport& report = scene.ranks().report(rank);
    EXPECT_THAT(scene.ranks().message(rank), HasSubstr(absl::StrCat("rank ", scene.plan.victim, " does not answer")));
    scene.ExpectLastOperation(rank);
    // Its last operation may have begun before.
    EXPECT_GE(report.noticed_ms - stopped_ms, timeout_ms / 2);
    EXPECT_LT(report.noticed_ms - stopped_ms, timeout_ms + 5000);
    EXPECT_LT(report.noticed_cpu_ms - cpu_ms[index++], 50 + (report.noticed_ms - measured_ms) / 4) << "rank " << rank;
  }
}

TEST_P(FaultTest, AStoppedRankThatIsContinuedInTimeGoesOnWithTheSameBits) {
  Scene scene(GetParam());
  scene.plan.operations.most = scene.plan.at_operation + 60;
  scene.StartOperations(absl::Seconds(60));
  ASSERT_TRUE(scene.TheMomentCame()) << scene.ranks().message(scene.plan.victim);
  scene.ranks().Stop(scene.plan.victim);
  usleep(500'000);
  scene.ranks().Continue(scene.plan.victim);
  scene.ExpectEnd(scene.All(), NowMs() + 30000);
  for (const int rank : scene.All()) {
    EXPECT_EQ(scene.ranks().report(rank).code, absl::StatusCode::kOk) << scene.ranks().message(rank);
    EXPECT_EQ(scene.ranks().report(rank).operations, scene.plan.operations.most);
  }
  EXPECT_EQ(scene.ranks().FilesLeft(), 0);
}

// Memory for one call, and the call.
class Caller {
 public:
  static absl::StatusOr<Caller> Make(comm::Communicator& rank) {
    auto buffer = rank.device().Allocate(4 * kMost, device::Use::kCommunication, "test");
    if (!buffer.ok()) return buffer.status();
    return Caller(rank, *std::move(buffer));
  }
  absl::Status Sum(DType dtype, int64_t count) {
    const Array x = buffer_.array(dtype).Slice(0, count);
    return rank_->AllReduce(x, x, comm::ReduceOp::kSum).Wait();
  }
  absl::Status Broadcast(int root) {
    const Array x = buffer_.array(DType::kFloat32).Slice(0, 100);
    return rank_->Broadcast(x, x, root).Wait();
  }
  absl::Status Finalize() { return rank_->Finalize(); }

 private:
  static constexpr int64_t kMost = 160000;
  Caller(comm::Communicator& rank, device::Buffer buffer) : rank_(&rank), buffer_(std::move(buffer)) {}

  comm::Communicator* rank_;
  device::Buffer buffer_;
};

struct Disagreement {
  absl::Status (*victim)(Caller&);
  absl::Status (*others)(Caller&);
  const char* victims_call;
  const char* others_call;
};

constexpr Disagreement kDisagreements[] = {
    {[](Caller& c) { return c.Sum(DType::kFloat32, 2000); }, [](Caller& c) { return c.Finalize(); }, "all-reduce #",
     "finalize #"},
    {[](Caller& c) { return c.Broadcast(0); }, [](Caller& c) { return c.Sum(DType::kFloat32, 100); }, "broadcast #",
     "all-reduce #"},
    {[](Caller& c) { return c.Sum(DType::kInt32, 2000); }, [](Caller& c) { return c.Sum(DType::kFloat32, 2000); },
     "int32, 2000", "fp32, 2000"},
    {[](Caller& c) { return c.Sum(DType::kFloat32, 2002); }, [](Caller& c) { return c.Sum(DType::kFloat32, 2000); },
     "2002 elements", "2000 elements"},
    {[](Caller& c) { return c.Sum(DType::kFloat32, 2000); }, [](Caller& c) { return c.Sum(DType::kFloat32, 160000); },
     "2000 elements", "160000 elements"},
    {[](Caller& c) { return c.Broadcast(1); }, [](Caller& c) { return c.Broadcast(0); }, "root 1", "root 0"},
};

TEST_P(FaultTest, RanksThatDisagreeAreAllToldWhatBothCalled) {
  // Half of the kinds for even seeds, half for odd ones.
  for (size_t i = static_cast<size_t>(std::get<1>(GetParam()) % 2); i < std::size(kDisagreements); i += 2) {
    const Disagreement& disagreement = kDisagreements[i];
    Scene scene(GetParam());
    scene.plan.operations.most = scene.plan.at_operation % 8;
    scene.plan.operations.finalize = false;
    scene.Start(absl::Seconds(20),
                [&, options = scene.plan.operations, victim = scene.plan.victim](comm::Communicator& rank,
                                                                                 RankReport& report) -> absl::Status {
                  if (const absl::Status agreed = RunOperations(rank, report, options); !agreed.ok()) return agreed;
                  auto caller = Caller::Make(rank);
                  if (!caller.ok()) return caller.status();
                  return rank.rank() == victim ? disagreement.victim(*caller) : disagreement.others(*caller);
                });
    scene.ExpectEnd(scene.All(), NowMs() + 15000);
    for (const int rank : scene.All()) {
      EXPECT_EQ(scene.ranks().report(rank).code, absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(scene.ranks().message(rank), HasSubstr(disagreement.victims_call));
      EXPECT_THAT(scene.ranks().message(rank), HasSubstr(disagreement.others_call));
    }
  }
}

TEST_P(FaultTest, AnAbortFromAnotherThreadOfOneRankEndsAll) {
  Scene scene(GetParam());
  scene.Start(absl::Seconds(30), [plan = scene.plan](comm::Communicator& rank, RankReport& report) {
    std::thread aborter;
    if (rank.rank() == plan.victim) {
      aborter = std::thread([&] {
        while (report.operations < plan.at_operation) usleep(100);
        usleep(plan.more_us);
        rank.Abort(absl::FailedPreconditionError("the test says so"));
      });
    }
    const absl::Status told = RunOperations(rank, report, plan.operations);
    if (aborter.joinable()) aborter.join();
    return told;
  });
  scene.ExpectEnd(scene.All(), NowMs() + 20000);
  for (const int rank : scene.All()) {
    EXPECT_EQ(scene.ranks().report(rank).code, absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(scene.ranks().message(rank), HasSubstr("the test says so"));
    if (rank != scene.plan.victim) {
      EXPECT_THAT(scene.ranks().message(rank), HasSubstr(absl::StrCat("rank ", scene.plan.victim, " gave up")));
    }
  }
}

}  // namespace
}  // namespace zeroshard::integration_tests
