#include "zeroshard/device/cpu/parallel.h"

#include <atomic>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

TEST(ParallelFor, CoversEachElementOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    for (const int64_t count : {0, 1, 15, 16, 17, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      ParallelFor(threads, count, 16, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& times : seen) ASSERT_EQ(times, 1) << threads << " threads, " << count;
    }
  }
}

TEST(ParallelFor, StretchesDoNotDependOnThreads) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int64_t>> end(100);
    ParallelFor(threads, 100, 7, [&](int64_t first, int64_t last) { end[static_cast<size_t>(first)] = last; });
    for (int64_t i = 0; i < 100; ++i) {
      ASSERT_EQ(end[static_cast<size_t>(i)], i % 7 == 0 ? std::min<int64_t>(100, i + 7) : 0) << i;
    }
  }
}

}  // namespace
}  // namespace zeroshard::device
