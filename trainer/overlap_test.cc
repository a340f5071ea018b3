#include "zeroshard/trainer/overlap.h"

#include <fstream>

#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

constexpr int kCommunicator = 8;

TraceSpan Collective(int64_t sequence, double ready, double begin, double end, int rank = 0) {
  return {.rank = rank,
          .track = kCommunicator,
          .category = "collective",
          .begin_us = begin,
          .end_us = end,
          .sequence = sequence,
          .ready_us = ready};
}

TraceSpan Wait(int64_t sequence, double begin, double end, int rank = 0) {
  return {.rank = rank,
          .category = "wait",
          .begin_us = begin,
          .end_us = end,
          .sequence = sequence,
          .awaited_track = kCommunicator};
}

TraceSpan Compute(double begin, double end, int rank = 0) {
  return {.rank = rank, .category = "forward", .begin_us = begin, .end_us = end};
}

RankOverlap Only(const std::vector<TraceSpan>& spans) {
  const std::vector<RankOverlap> overlaps = AnalyzeOverlap(spans);
  EXPECT_EQ(overlaps.size(), 1u);
  return overlaps.at(0);
}

TEST(Overlap, TransferBehindComputingIsHidden) {
  // Ready at 10, transferred while computing goes on to 40.
  const RankOverlap o = Only({Compute(0, 40), Collective(1, 10, 10, 30), Wait(1, 40, 40), Compute(40, 50)});
  EXPECT_DOUBLE_EQ(o.communication_s, 20e-6);
  EXPECT_DOUBLE_EQ(o.exposed_s, 0);
  EXPECT_DOUBLE_EQ(o.hidden_of_allowed(), 1);
}

TEST(Overlap, TransferThatIsWaitedForAtOnceCountsAgainstARunThatCalledItLate) {
  // Its inputs were there at 10, it was called at 40.
  const RankOverlap o = Only({Compute(0, 40), Wait(1, 40, 60), Collective(1, 10, 40, 60), Compute(60, 70)});
  EXPECT_DOUBLE_EQ(o.exposed_s, 20e-6);
  EXPECT_DOUBLE_EQ(o.least_exposed_s, 0);
  EXPECT_DOUBLE_EQ(o.hidden_share(), 0);
  EXPECT_DOUBLE_EQ(o.hidden_of_allowed(), 0);
}

TEST(Overlap, WhatNothingCouldHideIsAllowed) {
  // Ready when computing ends, and needed at once: a norm.
  const RankOverlap o = Only({Compute(0, 40), Wait(1, 40, 60), Collective(1, 40, 40, 60), Compute(60, 70)});
  EXPECT_DOUBLE_EQ(o.exposed_s, 20e-6);
  EXPECT_DOUBLE_EQ(o.least_exposed_s, 20e-6);
  EXPECT_DOUBLE_EQ(o.allowed_share(), 0);
  EXPECT_DOUBLE_EQ(o.hidden_of_allowed(), 1);
}

TEST(Overlap, TransfersOfOneCommunicatorFollowOneAnother) {
  // Two of 20, both ready at 10; 25 of computing are left to hide 40.
  const RankOverlap o =
      Only({Compute(0, 35), Collective(1, 10, 10, 30), Collective(2, 10, 30, 50), Wait(2, 35, 50), Compute(50, 60)});
  EXPECT_DOUBLE_EQ(o.communication_s, 40e-6);
  EXPECT_NEAR(o.exposed_s, 15e-6, 1e-12);
  EXPECT_NEAR(o.least_exposed_s, 15e-6, 1e-12);
  EXPECT_NEAR(o.hidden_of_allowed(), 1, 1e-9);
}

TEST(Overlap, PeersThatComeLateAreNoCommunication) {
  const std::vector<RankOverlap> o = AnalyzeOverlap({Compute(0, 10), Wait(1, 10, 100), Collective(1, 10, 10, 100),
                                                     Compute(0, 90, 1), Wait(1, 90, 100, 1), Collective(1, 90, 90, 100, 1)});
  ASSERT_EQ(o.size(), 2u);
  for (const RankOverlap& rank : o) {
    EXPECT_NEAR(rank.communication_s, 10e-6, 1e-12);
    EXPECT_NEAR(rank.exposed_s, 10e-6, 1e-12);
    EXPECT_NEAR(rank.hidden_of_allowed(), 1, 1e-9);
  }
}

TEST(Overlap, APeerWhoseInputsComeLateIsOnTheCriticalPath) {
  // Rank 0 is ready at 10, and waits from 40 on; rank 1 is ready at 90: nothing could have hidden the transfer on rank 0.
  const std::vector<RankOverlap> o =
      AnalyzeOverlap({Compute(0, 40), Collective(1, 10, 10, 110), Wait(1, 40, 110), Compute(0, 90, 1),
                      Collective(1, 90, 90, 110, 1), Compute(90, 115, 1), Wait(1, 115, 115, 1)});
  ASSERT_EQ(o.size(), 2u);
  EXPECT_NEAR(o[0].exposed_s, 20e-6, 1e-12);
  EXPECT_NEAR(o[0].least_exposed_s, 20e-6, 1e-12);
  EXPECT_NEAR(o[1].communication_s, 20e-6, 1e-12);
  EXPECT_NEAR(o[1].exposed_s, 0, 1e-12);
  EXPECT_NEAR(o[1].hidden_of_allowed(), 1, 1e-9);
}

TEST(Overlap, WhatAPeerHadToWaitForIsOnTheCriticalPathToo) {
  // Rank 1 computes on when the first transfer has come, at 30; only then it is ready for the second. Both ranks waited well.
  const std::vector<RankOverlap> o =
      AnalyzeOverlap({Compute(0, 10), Collective(1, 10, 10, 30), Compute(10, 50), Collective(2, 10, 40, 60), Wait(2, 50, 60),
                      Compute(60, 70), Compute(0, 10, 1), Collective(1, 10, 10, 30, 1), Wait(1, 10, 30, 1),
                      Compute(30, 40, 1), Collective(2, 40, 40, 60, 1), Wait(2, 40, 60, 1), Compute(60, 70, 1)});
  ASSERT_EQ(o.size(), 2u);
  for (const RankOverlap& rank : o) {
    EXPECT_NEAR(rank.communication_s, 40e-6, 1e-12);
    EXPECT_NEAR(rank.least_exposed_s, rank.exposed_s, 1e-12);
  }
  EXPECT_NEAR(o[0].exposed_s, 10e-6, 1e-12);
  EXPECT_NEAR(o[1].exposed_s, 40e-6, 1e-12);
}

// Ranks 0, 1 and ranks 2, 3 each have a second communicator, and call its first operation by the same number: two transfers, of which
// one is not held up by the other.
TEST(Overlap, GroupsOfRanksAreNotTakenForOneAnother) {
  std::vector<TraceSpan> spans;
  for (int rank = 0; rank < 4; ++rank) {
    const double late = rank < 2 ? 0 : 100;
    TraceSpan gather = Collective(1, 10 + late, 10 + late, 30 + late, rank);
    gather.group = rank < 2 ? "shard group 0-1" : "shard group 2-3";
    spans.insert(spans.end(), {Compute(0, 10 + late, rank), gather, Wait(1, 10 + late, 30 + late, rank),
                               Compute(30 + late, 40 + late, rank)});
  }
  for (const RankOverlap& rank : AnalyzeOverlap(spans)) {
    EXPECT_NEAR(rank.communication_s, 20e-6, 1e-12) << "rank " << rank.rank;
    EXPECT_NEAR(rank.exposed_s, 20e-6, 1e-12) << "rank " << rank.rank;
    EXPECT_NEAR(rank.least_exposed_s, 20e-6, 1e-12) << "rank " << rank.rank;
  }
}

TEST(Overlap, ATraceWithHolesIsReadToItsEnd) {
  // A wait for what never began in the trace, and one for what comes after a wait for itself.
  const RankOverlap o = Only({Compute(0, 10), Wait(7, 10, 20), Collective(8, 50, 30, 40), Wait(8, 30, 40), Compute(40, 60)});
  EXPECT_NEAR(o.communication_s, 10e-6, 1e-12);
}

TEST(Overlap, WhatIsNoTraceIsNamed) {
  const std::string path = ::testing::TempDir() + "/no_trace.json";
  for (const char* text : {"", "[1, 2]", "{\"traceEvents\": 3}", "{\"traceEvents\": [{\"ph\": \"X\", \"ts\": \"soon\"}]}"}) {
    std::ofstream(path) << text;
    const auto trace = ReadTrace(path);
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(trace.status().message().find(path), std::string::npos);
  }
  EXPECT_EQ(ReadTrace("/nowhere.json").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zeroshard::trainer
