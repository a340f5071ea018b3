#include "zeroshard/tools/flags/flag_set.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlagSetTest : public ::testing::Test {
 protected:
  FlagSetTest() {
    flags_.Integer("stage", &stage_, {.least = 0, .most = 3},
                   {.group = "ZERO", .text = "What is sharded.", .example = "--stage=3"});
    flags_.Integer("bucket", &bucket_, {.least = 1},
                   {.group = "ZERO", .text = "Bucket.", .example = "--bucket=1e6", .unit = "elements"});
    flags_.Real("lr", &lr_, {.least = 0, .without_least = true},
                {.group = "OPTIMIZER", .text = "Rate.", .example = "--lr=3e-4"});
    flags_.Boolean("overlap", &overlap_, {.group = "ZERO", .text = "Overlap.", .example = "--nooverlap"});
    flags_.Text("data", &data_, {.group = "DATA", .text = "Text.", .example = "--data=a.txt"});
    flags_.Choice("dtype", &dtype_, {"fp32"}, {.group = "ZERO", .text = "Numbers.", .example = "--dtype=fp32"},
                  {"bf16", "fp16"});
    flags_.Later("trace");
  }
  absl::Status Parse(const std::vector<const char*>& arguments) {
    absl::StatusOr<std::vector<std::string>> rest = flags_.Parse(static_cast<int>(arguments.size()), arguments.data());
    if (rest.ok()) positional_ = *rest;
    return rest.status();
  }
  std::string Refusal(const char* argument) { return std::string(Parse({argument}).message()); }

  int64_t stage_ = 2;
  int64_t bucket_ = 4096;
  double lr_ = 1e-3;
  bool overlap_ = true;
  std::string data_;
  std::string dtype_ = "fp32";
  FlagSet flags_{"train", "Trains."};
  std::vector<std::string> positional_;
};

TEST_F(FlagSetTest, ReadsValuesInEveryForm) {
  ASSERT_TRUE(
      Parse({"--stage=3", "--lr", "3e-4", "--nooverlap", "--data=x=y", "--bucket=1e6", "folder", "--", "--stage=9"}).ok());
  EXPECT_EQ(stage_, 3);
  EXPECT_EQ(lr_, 3e-4);
  EXPECT_FALSE(overlap_);
  EXPECT_EQ(data_, "x=y");
  EXPECT_EQ(bucket_, 1'000'000);
  EXPECT_THAT(positional_, ElementsAre("folder", "--stage=9"));
  EXPECT_TRUE(flags_.WasSet("stage"));
  EXPECT_FALSE(flags_.WasSet("dtype"));
  ASSERT_TRUE(Parse({"--overlap=true"}).ok());
  EXPECT_TRUE(overlap_);
}

TEST_F(FlagSetTest, MisspeltFlagGetsTheNearest) {
  EXPECT_THAT(Refusal("--stge=3"), HasSubstr("did you mean --stage?"));
  EXPECT_THAT(Refusal("--nooverlpa"), HasSubstr("did you mean --"));
}

TEST_F(FlagSetTest, BadValueGetsWhatIsAllowed) {
  EXPECT_THAT(Refusal("--stage=4"), HasSubstr("--stage=4: must be between 0 and 3; the nearest is --stage=3"));
  EXPECT_THAT(Refusal("--stage=two"), HasSubstr("is no whole number"));
  EXPECT_THAT(Refusal("--stage=1.5"), HasSubstr("is no whole number"));
  EXPECT_THAT(Refusal("--stage="), HasSubstr("is no whole number"));
  EXPECT_THAT(Refusal("--stage"), HasSubstr("has no value"));
  EXPECT_THAT(Refusal("--stage=99999999999999999999"), HasSubstr("is no whole number"));
  EXPECT_THAT(Refusal("--lr=0"), HasSubstr("must be above 0"));
  EXPECT_THAT(Refusal("--lr=nan"), HasSubstr("must be above 0"));
  EXPECT_THAT(Refusal("--overlap=perhaps"), HasSubstr("must be true or false"));
  EXPECT_THAT(Refusal("--dtype=fp23"), HasSubstr("did you mean --dtype=fp32?"));
  EXPECT_EQ(stage_, 2);
}

TEST_F(FlagSetTest, WhatIsNotBuiltInIsRefusedByName) {
  EXPECT_EQ(Parse({"--dtype=bf16"}).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Refusal("--dtype=bf16"), HasSubstr("not built in yet; built in: fp32"));
  EXPECT_THAT(Refusal("--trace=f"), HasSubstr("--trace is not built in yet"));
}

TEST_F(FlagSetTest, HelpGroupsFlagsAndGivesDefaultUnitAndExample) {
  ASSERT_TRUE(Parse({"--help"}).ok());
  EXPECT_TRUE(flags_.help_requested());
  const std::string help = flags_.Help();
  EXPECT_THAT(help, HasSubstr("--bucket=N  (elements)\n      Bucket.\n      default: 4096; example: --bucket=1e6"));
  EXPECT_LT(help.find("ZERO"), help.find("OPTIMIZER"));
  EXPECT_EQ(help.find("--trace"), std::string::npos);
}

TEST(Nearest, CountsEditsAndSwaps) {
  EXPECT_EQ(Nearest("gloop", {"gloo", "in_process"}), "gloo");
  EXPECT_EQ(Nearest("tsep", {"state", "step"}), "step");
  EXPECT_EQ(Nearest("", {"abc", "a"}), "a");
}

TEST_F(FlagSetTest, AnErrorGetsThePlacesOfTheSettingsItNames) {
  FlagSet flags("train", "Trains.");
  int64_t stage = 0, stages = 0;
  std::string folder;
  flags.Integer("stage", &stage, {}, {});
  flags.Integer("stages", &stages, {}, {});
  flags.Text("folder", &folder, {});
  ASSERT_TRUE(flags.SetFrom("stage", "1", "run.json:3:5", "zero.stage").ok());
  ASSERT_TRUE(flags.SetFrom("stages", "1", "run.json:4:5", "stages").ok());
  ASSERT_TRUE(flags.SetFrom("folder", "/a/b", "run.json:5:5", "path").ok());
  const auto with_places = [&](const char* message) {
    return std::string(flags.WithPlaces(absl::InvalidArgumentError(message)).message());
  };
  EXPECT_EQ(with_places("not in stage 1"), "not in stage 1 [run.json:3:5: zero.stage = 1]");
  EXPECT_EQ(with_places("no /a/b"), "no /a/b [run.json:5:5: path = /a/b]");
  EXPECT_EQ(with_places("the upstage"), "the upstage");
  EXPECT_TRUE(flags.WithPlaces(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace zeroshard::tools
