#include "zeroshard/trainer/step_recording.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/trainer/clock_offset.h"
#include "zeroshard/trainer/span_count.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using nlohmann::json;
using testing::SmallRun;
using testing::StartSmallRun;
using zero::testing::RunOnRanks;

json Parsed(const std::string& path) {
  std::ifstream in(path);
  return json::parse(in, nullptr, /*allow_exceptions=*/false);
}

std::string TracePath(const std::string& name) { return ::testing::TempDir() + "/" + name; }

// Runs four steps of two ranks; steps 1 and 2 are traced.
json TraceOf(const RunOptions& options, const std::string& name) {
  const std::string path = TracePath(name);
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, options);
    const auto recording = StepRecording::Create(communicator, {.trace_path = path, .first = 1, .last = 2},
                                                 SpansPerStep(run->engine().layout(), run->engine().options()));
    ASSERT_TRUE(recording.ok()) << recording.status();
    for (int64_t step = 0; step < 4; ++step) {
      (*recording)->BeginStep(step);
      ASSERT_TRUE(run->Step(false).ok());
      ASSERT_TRUE((*recording)->EndStep(step).ok());
    }
    EXPECT_TRUE((*recording)->file_status().ok()) << (*recording)->file_status();
  });
  return Parsed(path);
}

std::vector<json> SpansOf(const json& trace, int rank) {
  std::vector<json> spans;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == rank) spans.push_back(event);
  }
  return spans;
}

int64_t Count(const std::vector<json>& spans, const std::string& category, int step, const std::string& name = "") {
  return std::count_if(spans.begin(), spans.end(), [&](const json& span) {
    return span["cat"] == category && span["args"]["step"] == step && (name.empty() || span["name"] == name);
  });
}

TEST(StepRecording, TraceHoldsEachExpectedSpanOfItsStepsAlone) {
  RunOptions options = SmallRun(3, 2);
  options.engine.accumulation = 2;
  const json trace = TraceOf(options, "golden.json");
  ASSERT_FALSE(trace.is_discarded());
  for (const int rank : {0, 1}) {
    const std::vector<json> spans = SpansOf(trace, rank);
    for (const int step : {1, 2}) {
      EXPECT_EQ(Count(spans, "step", step), 1);
      EXPECT_EQ(Count(spans, "read", step), 2);
      for (const std::string unit : {"block.0", "block.1"}) {
        EXPECT_EQ(Count(spans, "forward", step, "forward " + unit), 2) << unit;
        EXPECT_EQ(Count(spans, "backward", step, "backward " + unit), 2) << unit;
      }
      EXPECT_EQ(Count(spans, "forward", step), 8);
      EXPECT_EQ(Count(spans, "backward", step), 8);
      EXPECT_EQ(Count(spans, "norm", step), 1);
      EXPECT_EQ(Count(spans, "optimizer", step), 1);
      EXPECT_GE(Count(spans, "collective", step, "all-gather block.1"), 2);
      EXPECT_EQ(Count(spans, "collective", step, "all-reduce gradient norm"), 1);
      EXPECT_EQ(Count(spans, "collective", step, "all-reduce loss"), 1);
      EXPECT_GE(Count(spans, "wait", step), 4);
      EXPECT_EQ(Count(spans, "host wait", step), 1);
    }
    EXPECT_EQ(Count(spans, "step", 0) + Count(spans, "step", 3), 0);
    for (const json& span : spans) EXPECT_FALSE(span["args"].contains("unfinished")) << span;
  }
}

// Offload and checkpoints on the host, many small buckets: copies are there, and the room that was reserved is enough.
TEST(StepRecording, TraceHoldsCopiesAndHasRoomForEveryBucket) {
  for (const bool tensor : {false, true}) {
    for (const int stage : {2, 3}) {
      RunOptions options = SmallRun(stage, 2);
      options.model.layers = 4;
      options.model.checkpoint_every = 1;
      options.model.checkpoints_on_host = true;
      options.engine.partition = tensor ? zero::Partition::kTensor : zero::Partition::kFlat;
      options.engine.accumulation = 2;
      options.engine.reduce_bucket_size = 200;
      options.engine.allgather_bucket_size = 200;
      options.engine.allgather_partitions = false;
      options.engine.sub_group_size = 1000;
      options.engine.offload_optimizer.target = zero::OffloadTarget::kHost;
      if (stage == 3) options.engine.offload_parameters.target = zero::OffloadTarget::kHost;
      const json trace = TraceOf(options, "copies.json");
      ASSERT_FALSE(trace.is_discarded());
      for (const json& event : trace["traceEvents"]) {
        if (event["name"] == "zeroshard_rank") {
          EXPECT_EQ(event["args"]["dropped"], 0);
        }
      }
      const std::vector<json> spans = SpansOf(trace, 0);
      for (const std::string what : {"activations", "gradients", "sub-group"}) {
        EXPECT_GT(Count(spans, "copy", 1, "copy " + what), 0) << what;
      }
      EXPECT_EQ(Count(spans, "copy", 1, "copy parameters") > 0, stage == 3);
      EXPECT_GT(Count(spans, "collective", 1), stage == 2 && !tensor ? 400 : 100);
    }
  }
}

TEST(StepRecording, SpansOfATrackNestOrFollowOneAnother) {
  for (const int stage : {0, 2, 3}) {
    const json trace = TraceOf(SmallRun(stage, 3), "nest.json");
    ASSERT_FALSE(trace.is_discarded());
    using Interval = std::tuple<double, double, std::string>;
    std::map<std::pair<int, int>, std::vector<Interval>> tracks;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const double begin = event["ts"], length = event["dur"];
      EXPECT_GE(length, 0);
      tracks[{event["pid"], event["tid"]}].push_back({begin, -(begin + length), event["name"]});
    }
    EXPECT_GE(tracks.size(), 6u);  // compute, host and communication of two ranks
    for (auto& [track, intervals] : tracks) {
      std::sort(intervals.begin(), intervals.end());
      std::vector<double> open;  // ends of the spans around this one
      for (const auto& [begin, negative_end, name] : intervals) {
        constexpr double kRounding = 0.0021;  // of two numbers with three digits
        while (!open.empty() && open.back() <= begin + kRounding) open.pop_back();
        if (!open.empty()) {
          EXPECT_LE(-negative_end, open.back() + kRounding) << name << " on track " << track.second;
        }
        open.push_back(-negative_end);
      }
    }
  }
}

TEST(StepRecording, RunThatDiesLeavesEachRanksPart) {
  const std::string path = TracePath("died.json");
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(2, 2));
    const auto recording = StepRecording::Create(communicator, {.trace_path = path, .first = 0, .last = 9}, 500);
    ASSERT_TRUE(recording.ok());
    (*recording)->BeginStep(0);
    ASSERT_TRUE(run->Step(false).ok());
    ASSERT_TRUE((*recording)->EndStep(0).ok());
    (*recording)->Salvage();
    EXPECT_TRUE((*recording)->file_status().ok());
    EXPECT_TRUE((*recording)->Finish().ok());  // does nothing any more
  });
  const json first = Parsed(path), second = Parsed(path + ".rank-1");
  ASSERT_FALSE(first.is_discarded());
  ASSERT_FALSE(second.is_discarded());
  EXPECT_EQ(Count(SpansOf(first, 0), "forward", 0), 4);
  EXPECT_EQ(Count(SpansOf(second, 1), "forward", 0), 4);
}

TEST(StepRecording, WhatHasNoRoomIsCounted) {
  const std::string path = TracePath("dropped.json");
  RunOnRanks({.world_size = 1}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(2, 2));
    const auto recording = StepRecording::Create(communicator, {.trace_path = path, .first = 0, .last = 0}, 5);
    ASSERT_TRUE(recording.ok());
    (*recording)->BeginStep(0);
    ASSERT_TRUE(run->Step(false).ok());
    ASSERT_TRUE((*recording)->EndStep(0).ok());
  });
  const json trace = Parsed(path);
  ASSERT_FALSE(trace.is_discarded());
  EXPECT_EQ(SpansOf(trace, 0).size(), 5u);
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "zeroshard_rank") {
      EXPECT_GT(event["args"]["dropped"], 10);
    }
  }
}

TEST(StepRecording, FileThatCannotBeWrittenStopsNothing) {
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(2, 2));
    const auto recording =
        StepRecording::Create(communicator, {.trace_path = "/nowhere/t.json", .first = 0, .last = 0}, 500);
    ASSERT_TRUE(recording.ok());
    (*recording)->BeginStep(0);
    ASSERT_TRUE(run->Step(false).ok());
    EXPECT_TRUE((*recording)->EndStep(0).ok());
    EXPECT_EQ((*recording)->file_status().ok(), communicator.rank() != 0);
    EXPECT_TRUE(run->Step(false).ok());
  });
}

TEST(StepRecording, BreakdownSaysWhereAStepsTimeWent) {
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(3, 2));
    const auto recording = StepRecording::Create(communicator, {.breakdown = true},
                                                 SpansPerStep(run->engine().layout(), run->engine().options()));
    ASSERT_TRUE(recording.ok());
    for (int64_t step = 0; step < 3; ++step) {
      const int64_t begun = device::NowNs();
      (*recording)->BeginStep(step);
      ASSERT_TRUE(run->Step(false).ok());
      const StepBreakdown b = (*recording)->Breakdown();
      ASSERT_TRUE((*recording)->EndStep(step).ok());
      const double named =
          b.forward_s + b.recompute_s + b.backward_s + b.optimizer_s + b.gather_wait_s + b.reduction_wait_s + b.other_wait_s;
      EXPECT_GT(b.forward_s, 0);
      EXPECT_GT(b.backward_s, 0);
      EXPECT_GT(b.optimizer_s, 0);
      EXPECT_GT(b.gather_wait_s, 0);
      EXPECT_GT(b.other_wait_s, 0);
      EXPECT_EQ(b.recompute_s, 0);
      EXPECT_LE(named, static_cast<double>(device::NowNs() - begun) * 1e-9);
    }
  });
}

TEST(ClockOffset, IsNoneWhereBoundsAllowIt) {
  EXPECT_EQ(OffsetWithin(-5, 7), 0);
  EXPECT_EQ(OffsetWithin(1000, 1200), 1100);
  EXPECT_EQ(OffsetWithin(-1200, -1000), -1100);
  RunOnRanks({.world_size = 3}, [&](comm::Communicator& communicator) {
    const auto ahead = MeasureClockOffset(communicator);
    ASSERT_TRUE(ahead.ok());
    EXPECT_EQ(*ahead, 0);  // one host, one clock
  });
}

}  // namespace
}  // namespace zeroshard::trainer
