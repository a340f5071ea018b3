// What gpu_check.sh makes of kernels' tests, plainly and under compute-sanitizer, with programs of the test's own.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/tools/gpu_check/bundle_folder.h"

namespace zeroshard::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GpuCheckOfKernels : public ::testing::Test {
 protected:
  // Suites as Google Test lists them. `ends`: what it says of a run, by "$filter".
  void SuitesThatEnd(const std::string& ends) {
    bundle_.Program(
        "payload/bin/kernels_on_gpu_test",
        "filter=all\nfor flag; do\n  case $flag in\n    --gtest_list_tests)\n      printf '%s\\n' 'Running main() "
        "from gmock_main.cc' 'Orders/PlannedKernels.' '  Products/0  # GetParam() = 0' Plain. '  Test' "
        "Orders/Reduce. '  Tree/0'\n      exit 0 ;;\n    --gtest_filter=*) filter=${flag#*=} ;;\n  esac\ndone\n" +
            ends);
  }
  void Sanitizer(const std::string& before) {
    bundle_.Program("path/compute-sanitizer",
                    "[ \"$1 $2\" = '--error-exitcode 1' ] || exit 9\nshift 2\n" + before + "exec \"$@\"");
  }

  const BundleFolder bundle_;
};

TEST_F(GpuCheckOfKernels, RunsEachSuiteUnderTheSanitizerTheVendorsLast) {
  SuitesThatEnd("echo '[  PASSED  ] 2 tests.'");
  Sanitizer("");
  EXPECT_EQ(bundle_.Check("1").code, 0);
  EXPECT_THAT(bundle_.Names(1), ElementsAre("kernels", "kernels_sanitized_Plain", "kernels_sanitized_Reduce",
                                            "kernels_sanitized_PlannedKernels"));
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_Reduce")["result"]["tests"], 2);
}

TEST_F(GpuCheckOfKernels, ASuiteInWhichTheSanitizerFindsSomethingHidesNoOther) {
  SuitesThatEnd(
      "echo '[  PASSED  ] 2 tests.'\n[ \"$filter\" != 'Plain.*' ] || { echo '== ERROR SUMMARY: 3 errors'; exit 1; }");
  Sanitizer("");
  EXPECT_EQ(bundle_.Check("1").code, 1);
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_Plain")["error"], "== ERROR SUMMARY: 3 errors");
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_PlannedKernels")["passed"], true);
}

// Some containers: it says so of every suite alike.
TEST_F(GpuCheckOfKernels, ASanitizerThatDoesNotKnowTheMachineIsLeftOutOnceAndFailsNothing) {
  SuitesThatEnd("echo '[  PASSED  ] 2 tests.'");
  Sanitizer("echo '========= Error: Device not supported'; exit 1\n");
  EXPECT_EQ(bundle_.Check("1").code, 0);
  EXPECT_THAT(bundle_.Names(1), ElementsAre("kernels", "kernels_sanitized_Plain"));
  EXPECT_TRUE(bundle_.Named(1, "kernels_sanitized_Plain")["passed"].is_null());
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_Plain")["left_out"], "compute-sanitizer says: Device not supported");
  EXPECT_THAT(bundle_.End(1)["left_out"], ElementsAre("kernels_sanitized_Plain"));
  EXPECT_THAT(bundle_.End(1)["failed"], IsEmpty());
}

// Though it ends with 0.
TEST_F(GpuCheckOfKernels, WhatWasSkippedHasNotPassed) {
  SuitesThatEnd(
      "case $filter in\n  Plain*) echo 'a.cc:3: Skipped'; echo 'no GPU'; echo '[  PASSED  ] 0 tests.'; echo '[  SKIPPED ] 1 "
      "test, listed below:' ;;\n"
      "  *Reduce*) echo '[  PASSED  ] 1 test.'; echo '[  SKIPPED ] 1 test, listed below:' ;;\n"
      "  *Planned*) echo '[  PASSED  ] 0 tests.' ;;\n  *) echo '[  PASSED  ] 9 tests.' ;;\nesac");
  Sanitizer("");
  EXPECT_EQ(bundle_.Check("1").code, 1);
  EXPECT_EQ(bundle_.Named(1, "kernels")["passed"], true);
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_Plain")["error"], "tests were skipped: no GPU");
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_Reduce")["error"], "tests were skipped");
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_PlannedKernels")["error"], "no test has run");
}

// A suite that does not end takes no more than its share of the phase.
TEST_F(GpuCheckOfKernels, ASuiteThatHangsSaysWhereAndLeavesTheOthersTheirTime) {
  SuitesThatEnd(
      "if [ \"$filter\" = 'Plain.*' ]; then\n  echo '[ RUN      ] Plain.A'; echo '[       OK ] Plain.A (3 ms)'\n"
      "  echo '[ RUN      ] Plain.B'; exec sleep 1000\nfi\necho '[  PASSED  ] 9 tests.'");
  Sanitizer("");
  EXPECT_EQ(bundle_.Check("1", "ZEROSHARD_GPU_CHECK_SECONDS=30").code, 1);
  EXPECT_THAT(bundle_.Named(1, "kernels_sanitized_Plain")["error"].get<std::string>(),
              ContainsRegex("^cut off after 1?[0-9] s in Plain.B, 1 tests after the start, since its time was over$"));
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_Reduce")["passed"], true);
  EXPECT_EQ(bundle_.Named(1, "kernels_sanitized_PlannedKernels")["passed"], true);
}

}  // namespace
}  // namespace zeroshard::tools
