#include "zeroshard/tools/launch/build_id.h"

#include <string>

#include "gtest/gtest.h"

namespace zeroshard::tools {
namespace {

TEST(BuildId, IsOfThisProgramAndAlwaysTheSame) {
  const std::string id = BuildId();
  EXPECT_EQ(BuildId(), id);
  if (id == "unknown") GTEST_SKIP() << "this toolchain links without a build id";
  EXPECT_GE(id.size(), 16U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace zeroshard::tools
