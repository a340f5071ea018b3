// The text that a run without --data trains on: unpacked, given a tokenizer and encoded once.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TrainDefaultData, IsPreparedOnceAndLearned) {
  if (ReadFile("/usr/share/dictd/gcide.dict.dz").empty()) GTEST_SKIP() << "no dict-gcide on this machine";
  const std::string path = ::testing::TempDir() + "/summary.json";
  const std::vector<std::string> flags = {"--layers=1", "--width=32",  "--heads=2",   "--context=32",     "--batch=4",
                                          "--steps=10", "--sample=10", "--threads=1", "--summary=" + path};
  const ToolResult first = ToolProcess("tools/train", flags).Wait(std::chrono::seconds(600));
  ASSERT_EQ(first.code, 0) << first.errors;
  EXPECT_THAT(first.errors, HasSubstr("training a SentencePiece tokenizer"));
  const nlohmann::json summary = nlohmann::json::parse(ReadFile(path), nullptr, false);
  EXPECT_NEAR(summary["first_loss"].get<double>(), 7.62, 0.2);  // ln 2048
  EXPECT_LT(summary["last_loss"], summary["first_loss"]);
  const ToolResult second = RunTool("tools/train", flags);
  EXPECT_EQ(second.code, 0) << second.errors;
  EXPECT_THAT(second.errors, Not(HasSubstr("(once")));
}

}  // namespace
}  // namespace zeroshard::integration_tests
