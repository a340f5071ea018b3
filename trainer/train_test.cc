#include "zeroshard/trainer/train.h"

#include <dirent.h>

#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/trainer/flight_record.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TrainOptions Small(int stage, int64_t steps) {
  return {.run = testing::SmallRun(stage, 2), .steps = steps, .progress = ProgressStyle::kNone};
}

std::string Path(const std::string& name) { return ::testing::TempDir() + "/" + name; }

// Rank 0's outcome, or the error of the rank that had one.
absl::StatusOr<TrainOutcome> TrainOnTwo(const TrainOptions& options) {
  absl::StatusOr<TrainOutcome> result = absl::UnknownError("no rank ran");
  std::mutex mutex;
  zero::testing::RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    absl::StatusOr<TrainOutcome> outcome = Train(communicator, options);
    const std::lock_guard<std::mutex> lock(mutex);
    if (communicator.rank() == 0) result = std::move(outcome);
  });
  return result;
}

std::vector<json> Lines(const std::string& path) {
  std::vector<json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line, nullptr, false));
  return lines;
}

TEST(Train, LeavesWhatItWasAskedFor) {
  TrainOptions options = Small(3, 6);
  options.metrics_path = Path("all.jsonl");
  options.summary_path = Path("all.json");
  options.tensorboard_folder = Path("all_board");
  options.recording = {.trace_path = Path("all.trace.json"), .first = 2, .last = 3};
  options.wall_clock_breakdown = true;
  options.eval_data = options.run.data;
  options.eval_every = 2;
  options.eval_batches = 3;
  const auto outcome = TrainOnTwo(options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->files.ok()) << outcome->files;
  const std::vector<json> lines = Lines(options.metrics_path);
  ASSERT_EQ(lines.size(), 6u);
  for (size_t step = 0; step < lines.size(); ++step) {
    ASSERT_FALSE(lines[step].is_discarded());
    EXPECT_EQ(lines[step].contains("val_loss"), step % 2 == 1);
    EXPECT_EQ(lines[step]["samples"], 2 * (step + 1));
    EXPECT_EQ(lines[step]["skipped_steps"], 0);
    EXPECT_GT(lines[step]["forward_s"], 0);
    EXPECT_FALSE(lines[step].contains("loss_scale"));
  }
  EXPECT_LT(lines[5]["val_loss"], lines[1]["val_loss"]);
  std::ifstream trace(options.recording.trace_path), summary(options.summary_path);
  EXPECT_FALSE(json::parse(trace, nullptr, false).is_discarded());
  const json said = json::parse(summary, nullptr, false);
  ASSERT_FALSE(said.is_discarded());
  for (const json& rank : said["ranks"]) {
    // What evaluations send is no step's.
    EXPECT_EQ(rank["wire"]["data_bytes_per_step"], rank["wire"]["predicted_data_bytes_per_step"]);
    EXPECT_EQ(rank["ledger"]["data"]["now"], rank["ledger"]["data"]["predicted"]);
  }
  DIR* board = opendir(options.tensorboard_folder.c_str());
  ASSERT_NE(board, nullptr);
  closedir(board);
}

TEST(Train, WatchingARunLeavesItsBitsAlone) {
  std::vector<std::string> bits;
  for (const bool watched : {false, true}) {
    TrainOptions options = Small(2, 4);
    options.summary_path = Path("bits.json");
    if (watched) {
      options.recording = {.trace_path = Path("bits.trace.json"), .first = 0, .last = 3};
      options.wall_clock_breakdown = true;
      options.eval_data = options.run.data;
      options.eval_every = 1;
    }
    ASSERT_TRUE(TrainOnTwo(options).ok());
    std::ifstream summary(options.summary_path);
    bits.push_back(json::parse(summary, nullptr, false)["bits"]);
  }
  EXPECT_EQ(bits[0], bits[1]);
}

TEST(Train, Fp16FindsItsLossScale) {
  TrainOptions options = Small(2, 30);
  options.run.engine.dtype = device::DType::kFloat16;
  options.run.engine.optimizer.loss_scale = {.kind = device::LossScaleKind::kDynamic, .initial_power = 24, .hysteresis = 1};
  options.max_skipped = DefaultMaxSkipped(options.run.engine.optimizer.loss_scale);
  options.metrics_path = Path("fp16.jsonl");
  const auto outcome = TrainOnTwo(options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const std::vector<json> lines = Lines(options.metrics_path);
  ASSERT_EQ(lines.size(), 30u);
  EXPECT_EQ(lines[0]["loss_scale"], 16777216.0);
  EXPECT_EQ(lines[0]["skipped"], true);
  EXPECT_TRUE(lines[0]["grad_norm"].is_null());
  EXPECT_EQ(lines[29]["skipped"], false);
  EXPECT_LT(lines[29]["loss_scale"], 16777216.0);
  EXPECT_GE(lines[29]["skipped_steps"], 1);
}

TEST(Train, ScaleThatOverflowsForEverEndsTheRunAndIsNamed) {
  TrainOptions options = Small(2, 50);
  options.run.engine.dtype = device::DType::kFloat16;
  options.run.engine.optimizer.loss_scale = {.kind = device::LossScaleKind::kStatic, .value = 1e30};
  options.max_skipped = 3;
  options.flight_folder = ::testing::TempDir();
  const auto outcome = TrainOnTwo(options);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(outcome.status().message()),
              AllOf(HasSubstr("step 2:"), HasSubstr("3 steps in a row"), HasSubstr("unit "), HasSubstr("fp16"),
                    HasSubstr("on rank "), HasSubstr("the loss scale was 1e+30, and is static")));
  const auto record = outcome.status().GetPayload(kFlightRecordPayload);
  ASSERT_TRUE(record.has_value());
  EXPECT_GT(Lines(std::string(*record)).size(), 10u);
}

TEST(Train, ALossThatIsNaNForEverEndsTheRunHoweverLowTheScaleHasFallen) {
  TrainOptions options = Small(2, 50);
  options.run.engine.dtype = device::DType::kFloat16;
  options.run.engine.optimizer.loss_scale = {.kind = device::LossScaleKind::kDynamic, .initial_power = 2, .hysteresis = 1};
  options.run.engine.optimizer.schedule.learning_rate = 1e30;
  options.max_skipped = DefaultMaxSkipped(options.run.engine.optimizer.loss_scale);
  const auto outcome = TrainOnTwo(options);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(outcome.status().message()),
              AllOf(HasSubstr(absl::StrCat(options.max_skipped, " steps in a row (loss nan")),
                    HasSubstr("rank 0's part of the loss is nan; the gradient of 'transformer."), HasSubstr("on rank 0"),
                    HasSubstr("the loss scale was 1, its minimum")));
}

TEST(Train, LossScaleIsNotNamedInFp32) {
  TrainOptions options = Small(0, 50);
  options.run.engine.optimizer.schedule.learning_rate = 1e30;
  options.max_skipped = 2;
  const auto outcome = TrainOnTwo(options);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(outcome.status().message()), ::testing::Not(HasSubstr("loss scale")));
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("fp32"));
}

TEST(Train, MostSkippedStepsLeaveRoomForAScaleToFall) {
  EXPECT_EQ(DefaultMaxSkipped({}), 5);
  EXPECT_EQ(DefaultMaxSkipped({.kind = device::LossScaleKind::kStatic}), 5);
  EXPECT_EQ(DefaultMaxSkipped({.kind = device::LossScaleKind::kDynamic}), 5 + 1 + 16);
  EXPECT_EQ(DefaultMaxSkipped({.kind = device::LossScaleKind::kDynamic, .initial_power = 4, .hysteresis = 1, .minimum = 16}),
            5);
}

TEST(Train, FileThatCannotBeWrittenIsSaidAtTheEnd) {
  TrainOptions options = Small(2, 3);
  options.metrics_path = "/dev/full";
  const auto outcome = TrainOnTwo(options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(std::string(outcome->files.message()), HasSubstr("/dev/full"));
  EXPECT_EQ(outcome->steps, 3);
}

}  // namespace
}  // namespace zeroshard::trainer
