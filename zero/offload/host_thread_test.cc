#include "zeroshard/zero/offload/host_thread.h"

#include <gtest/gtest.h>

#include <vector>

#include "zeroshard/device/our_thread.h"

namespace zeroshard::zero {
namespace {

TEST(HostThread, RunsJobsInOrderOnAThreadOfItsOwn) {
  struct Log {
    std::vector<int64_t> arguments;
    std::vector<std::thread::id> threads;
    std::vector<const void*> owners;
  } log;
  {
    auto thread = HostThread::Create(&log);
    ASSERT_TRUE(thread.ok()) << thread.status();
    for (int64_t i = 0; i < 1000; ++i) {
      (*thread)->Post(
          [](void* self, int64_t argument) {
            auto& to = *static_cast<Log*>(self);
            to.arguments.push_back(argument);
            to.threads.push_back(std::this_thread::get_id());
            to.owners.push_back(device::OurThread::owner());
          },
          &log, i);
      if (i != 500) continue;
      (*thread)->Drain();
      EXPECT_EQ(log.arguments.size(), 501u);
    }
  }
  ASSERT_EQ(log.arguments.size(), 1000u) << "what was posted runs, also where the thread is dropped at once";
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(log.arguments[i], i);
    EXPECT_EQ(log.threads[i], log.threads[0]);
    EXPECT_EQ(log.owners[i], &log);
  }
  EXPECT_NE(log.threads[0], std::this_thread::get_id());
}

}  // namespace
}  // namespace zeroshard::zero
