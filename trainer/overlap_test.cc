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
