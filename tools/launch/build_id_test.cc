#include "zeroshard/tools/launch/build_id.h"

#include <dlfcn.h>

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

TEST(BuildId, IsOfOurSharedObjectToo) {
  const std::string program = BuildId();
  if (program == "unknown") GTEST_SKIP() << "this toolchain links without a build id";
  ASSERT_NE(dlopen("tools/launch/libzeroshard_cuda_of_a_test.so", RTLD_NOW), nullptr) << dlerror();
  const std::string both = BuildId();
  ASSERT_TRUE(both.starts_with(program + " with ")) << both;
  EXPECT_NE(both, program + " with " + program);
}

}  // namespace
}  // namespace zeroshard::tools
