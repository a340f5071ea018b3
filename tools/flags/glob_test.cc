#include "zeroshard/tools/flags/glob.h"

#include "gtest/gtest.h"

namespace zeroshard::tools {
namespace {

TEST(Glob, StarIsAnyRunAndQuestionMarkOneCharacter) {
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("a*c", "ac"));
  EXPECT_TRUE(GlobMatches("a*c", "a.b.c"));
  EXPECT_TRUE(GlobMatches("*.ln_?.*", "transformer.h.0.ln_1.bias"));
  EXPECT_TRUE(GlobMatches("**a", "bca"));
  EXPECT_FALSE(GlobMatches("a?", "a"));
  EXPECT_FALSE(GlobMatches("a*c", "a.b"));
  EXPECT_FALSE(GlobMatches("", "a"));
  EXPECT_TRUE(GlobMatches("", ""));
}

TEST(Glob, TheNearestTakesTheFewestEdits) {
  EXPECT_EQ(NearestToGlob("*.wpee.weight", {"a.wte.weight", "a.wpe.weight"}), "a.wpe.weight");
  EXPECT_EQ(NearestToGlob("x", {"abc", "ab"}), "ab");
}

}  // namespace
}  // namespace zeroshard::tools
