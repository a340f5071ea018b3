#include "zeroshard/tools/launch/job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "zeroshard/tools/launch/exit_code.h"

namespace zeroshard::tools {
namespace {

using ::testing::HasSubstr;

struct Ended {
  int code = 0;
  std::string errors;
  absl::Status survivor;
};

// Rank 1 throws `what` while rank 0 waits for it.
template <class What>
Ended RunWithAThrow(const What& what) {
  const auto plan = PlanJob({.backend = "in_process", .nproc = 2});
  EXPECT_TRUE(plan.ok()) << plan.status();
  Ended ended;
  ::testing::internal::CaptureStderr();
  ended.code = RunJob(*plan, [&](comm::Communicator& communicator) -> absl::StatusOr<int> {
    if (communicator.rank() == 1) throw what;
    ended.survivor = communicator.Barrier().Wait();
    return ended.survivor;
  });
  ended.errors = ::testing::internal::GetCapturedStderr();
  return ended;
}

TEST(Job, ARankThatThrowsIsNamedToTheOthersAndToTheUser) {
  const Ended ended = RunWithAThrow(std::runtime_error("the test says so"));
  EXPECT_EQ(ended.code, kExitBug);
  EXPECT_THAT(ended.errors, HasSubstr("rank 1: an exception was thrown: the test says so"));
  EXPECT_TRUE(absl::IsUnavailable(ended.survivor)) << ended.survivor;
  EXPECT_THAT(std::string(ended.survivor.message()), HasSubstr("rank 1 gave up: an exception was thrown: the test says so"));
}

TEST(Job, WhatIsThrownMayBeAnything) {
  EXPECT_THAT(RunWithAThrow(7).errors, HasSubstr("rank 1: an exception was thrown that is no std::exception"));
  const Ended no_memory = RunWithAThrow(std::bad_alloc());
  EXPECT_EQ(no_memory.code, kExitMemory);
  EXPECT_THAT(no_memory.errors, HasSubstr("rank 1: out of memory"));
}

// All end with the code of those that lost a peer; the others have noticed before rank 1 ends.
TEST(Job, TheRankThatTheOthersBlameSpeaksForItself) {
  const auto plan = PlanJob({.backend = "in_process", .nproc = 3});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::atomic<int> noticed{0};
  ::testing::internal::CaptureStderr();
  const int code = RunJob(*plan, [&](comm::Communicator& communicator) -> absl::StatusOr<int> {
    if (communicator.rank() != 1) {
      const absl::Status told = communicator.Barrier().Wait();
      ++noticed;
      return told;
    }
    const absl::Status cause = absl::FailedPreconditionError("the test disagrees");
    communicator.Abort(cause);
    while (noticed < 2) std::this_thread::yield();
    return cause;
  });
  EXPECT_EQ(code, kExitPeer);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "error: rank 1: the test disagrees\n");
}

}  // namespace
}  // namespace zeroshard::tools
