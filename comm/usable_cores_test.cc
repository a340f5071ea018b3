#include "zeroshard/comm/usable_cores.h"

#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

TEST(UsableCores, AreThoseThatTheThreadIsBoundTo) {
  std::thread([] {
    int first = 0;
    const CoreSet all = OwnCores();
    while ((all[static_cast<size_t>(first / 64)] >> first % 64 & 1) == 0) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(Count(OwnCores()), 1);
    EXPECT_EQ(UsableCores(), 1);
  }).join();
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(), Count(OwnCores()));
}

TEST(UsableCores, ThatRanksShareAreDivided) {
  EXPECT_EQ(CoresOfARank(64, 64, 4, /*binds=*/false), 16);
  EXPECT_EQ(CoresOfARank(8, 64, 4, /*binds=*/false), 2);  // the whole job is bound
  EXPECT_EQ(CoresOfARank(64, 64, 4, /*binds=*/true), 16);
  EXPECT_EQ(CoresOfARank(2, 2, 8, /*binds=*/false), 1);
}

TEST(UsableCores, OfARankThatItsLauncherBoundAreItsOwn) {
  EXPECT_EQ(CoresOfARank(16, 64, 4, /*binds=*/true), 16);
  EXPECT_EQ(CoresOfARank(1, 64, 4, /*binds=*/true), 1);
  EXPECT_EQ(CoresOfARank(1, 2, 8, /*binds=*/true), 1);
}

}  // namespace
}  // namespace zeroshard::comm
