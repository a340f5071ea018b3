#include "zeroshard/trainer/metrics_file.h"

#include <fstream>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace zeroshard::trainer {
namespace {

TEST(MetricsFile, OneObjectAStep) {
  const std::string path = ::testing::TempDir() + "/metrics.jsonl";
  absl::StatusOr<MetricsFile> metrics = MetricsFile::Create(path);
  ASSERT_TRUE(metrics.ok());
  for (int64_t step = 0; step < 2; ++step) {
    EXPECT_FALSE(metrics->Write({.step = step,
                                 .loss = 0.1 + static_cast<double>(step),
                                 .learning_rate = 1e-3,
                                 .gradient_norm = 2.5,
                                 .clip_factor = 0.4,
                                 .tokens = 3'000'000'000 * (step + 1),
                                 .tokens_per_s = 1e4,
                                 .step_s = 0.25}));
  }
  EXPECT_TRUE(metrics->Close().ok());
  std::ifstream lines(path);
  std::string line;
  for (int64_t step = 0; step < 2; ++step) {
    ASSERT_TRUE(std::getline(lines, line));
    const nlohmann::json object = nlohmann::json::parse(line);
    EXPECT_EQ(object["step"], step);
    EXPECT_EQ(object["loss"].get<double>(), 0.1 + static_cast<double>(step));  // all its bits
    EXPECT_EQ(object["lr"], 1e-3);
    EXPECT_EQ(object["grad_norm"], 2.5);
    EXPECT_EQ(object["clip_factor"], 0.4);
    EXPECT_EQ(object["clipped_norm"], 1.0);
    EXPECT_EQ(object["tokens"], 3'000'000'000 * (step + 1));
    EXPECT_EQ(object["skipped"], false);
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(MetricsFile, WhatIsNotFiniteIsNull) {
  std::array<char, kMostMetricsBytes> buffer;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const size_t length =
      FormatMetrics({.loss = nan, .gradient_norm = std::numeric_limits<double>::infinity(), .skipped = true}, buffer);
  const nlohmann::json object = nlohmann::json::parse(std::string(buffer.data(), length));
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_TRUE(object["grad_norm"].is_null());
  EXPECT_EQ(object["skipped"], true);
}

TEST(MetricsFile, WhatAStepDoesNotHaveIsLeftOut) {
  std::array<char, kMostMetricsBytes> buffer;
  size_t length = FormatMetrics({.step = 1}, buffer);
  nlohmann::json object = nlohmann::json::parse(std::string(buffer.data(), length));
  for (const char* key : {"val_loss", "loss_scale", "forward_s"}) EXPECT_FALSE(object.contains(key)) << key;
  length = FormatMetrics(
      {.skipped_steps = 3, .loss_scale = 65536, .val_loss = 2.5, .breakdown = StepBreakdown{.forward_s = 1}}, buffer);
  object = nlohmann::json::parse(std::string(buffer.data(), length));
  EXPECT_EQ(object["skipped_steps"], 3);
  EXPECT_EQ(object["loss_scale"], 65536.0);
  EXPECT_EQ(object["val_loss"], 2.5);
  EXPECT_EQ(object["forward_s"], 1.0);
}

TEST(MetricsFile, LongestLineFits) {
  std::array<char, kMostMetricsBytes> buffer;
  const double longest = -std::numeric_limits<double>::denorm_min() * 3;
  const int64_t most = std::numeric_limits<int64_t>::min();
  const size_t length =
      FormatMetrics({.step = most,
                     .loss = longest,
                     .learning_rate = longest,
                     .gradient_norm = longest,
                     .clip_factor = longest,
                     .tokens = most,
                     .tokens_per_s = longest,
                     .step_s = longest,
                     .samples = most,
                     .skipped_steps = most,
                     .loss_scale = longest,
                     .val_loss = longest,
                     .breakdown = StepBreakdown{longest, longest, longest, longest, longest, longest, longest}},
                    buffer);
  EXPECT_LT(length, buffer.size() - 1);
  EXPECT_EQ(buffer[length - 1], '\n');
}

TEST(MetricsFile, FullDiskIsReportedOnceAndNothingIsThrown) {
  absl::StatusOr<MetricsFile> metrics = MetricsFile::Create("/dev/full");
  if (!metrics.ok()) GTEST_SKIP() << "no /dev/full on this machine";
  EXPECT_TRUE(metrics->Write({.step = 3}));
  EXPECT_FALSE(metrics->Write({.step = 4}));
  EXPECT_THAT(std::string(metrics->status().message()), ::testing::HasSubstr("from step 3 on"));
  EXPECT_FALSE(metrics->Close().ok());
}

TEST(MetricsFile, FolderThatIsNotThereIsNamed) {
  const absl::Status status = MetricsFile::Create("/nonexistent/metrics.jsonl").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/nonexistent/metrics.jsonl"));
}

}  // namespace
}  // namespace zeroshard::trainer
