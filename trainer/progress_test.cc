#include "zeroshard/trainer/progress.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Shown(ProgressStyle style, int64_t steps) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  Progress progress({.descriptor = ends[1], .style = style, .steps = steps, .peak_flops = 1e9, .flops_per_token = 1e4});
  for (int64_t step = 0; step < steps; ++step) {
    progress.Show(
        {.step = step, .loss = 4.25, .learning_rate = 1e-3, .gradient_norm = 0.5, .tokens_per_s = 62'000, .step_s = 1});
  }
  progress.End();
  close(ends[1]);
  std::string text(1 << 16, '\0');
  const ssize_t got = read(ends[0], text.data(), text.size());
  close(ends[0]);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  return text;
}

TEST(Progress, LineSaysWhatPeopleAskFor) {
  char line[256];
  const size_t length =
      FormatProgress({.steps = 600, .peak_flops = 1e9, .flops_per_token = 1e4},
                     {.step = 119, .loss = 4.2134, .learning_rate = 1.2e-3, .gradient_norm = 0.91, .tokens_per_s = 62'000},
                     /*step_s=*/0.2, /*resident_bytes=*/182'000'000, line);
  EXPECT_EQ(std::string(line, length),
            "step 120/600  loss 4.2134  lr 1.20e-03  grad 0.91  62.0k tok/s  62% of peak  182 MB  1m36s left");
}

TEST(Progress, PlainLinesAreFewAndTheLastIsThere) {
  const std::string text = Shown(ProgressStyle::kPlain, 400);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 42);
  EXPECT_THAT(text, StartsWith("step 1/400"));
  EXPECT_THAT(text, HasSubstr("step 400/400"));
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, LiveLineIsWrittenOver) {
  const std::string text = Shown(ProgressStyle::kLive, 5);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, StartsWith("\rstep 1/5"));
}

TEST(Progress, RelayedLinesAreMarkedAndWhole) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Progress progress({.descriptor = ends[1], .relayed = true, .steps = 9});
  progress.Show({.step = 0});
  char text[256] = {};
  ASSERT_GT(read(ends[0], text, sizeof text - 1), 0);
  EXPECT_THAT(std::string(text), StartsWith("\rstep 1/9"));
  EXPECT_EQ(std::string(text).back(), '\n');
  close(ends[0]);
  close(ends[1]);
}

TEST(Progress, ResidentMemoryIsRead) {
  EXPECT_GT(ResidentBytes(), 1 << 20);
  EXPECT_GE(PeakResidentBytes(), ResidentBytes() / 2);
}

}  // namespace
}  // namespace zeroshard::trainer
