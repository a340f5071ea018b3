#include "zeroshard/trainer/batch_shape.h"

#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

TEST(BatchShape, RanksTakeEveryRowOnce) {
  for (int64_t rows : {1, 3, 6, 12, 13}) {
    for (int64_t world_size : {1, 2, 3, 4, 5, 16}) {
      BatchShape shape{.rows = rows, .context = 8, .world_size = world_size};
      int64_t next = 0;
      for (int64_t rank = 0; rank < world_size; ++rank) {
        EXPECT_EQ(shape.FirstRow(rank), next);
        EXPECT_LE(shape.Rows(rank), shape.MostRows());
        next += shape.Rows(rank);
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(BatchShape, SamplesFollowEachOtherOverRanksMicroBatchesAndSteps) {
  // ((step A + a) N + r) B + row
  BatchShape shape{.rows = 2 * 3, .context = 8, .accumulation = 4, .world_size = 2};
  EXPECT_EQ(shape.FirstSample(/*step=*/5, /*micro_batch=*/2, /*rank=*/1), ((5 * 4 + 2) * 2 + 1) * 3);
}

TEST(BatchShape, ScaleIsTheMeanOverTokensTimesAPowerOfTwo) {
  BatchShape shape{.rows = 6, .context = 10, .accumulation = 2, .world_size = 3};
  EXPECT_EQ(shape.PowerOfTwo(), 4);
  EXPECT_EQ(shape.GradientScale(), 4.0 / 120);
  EXPECT_EQ(shape.EngineScale(), 0.25);
}

TEST(BatchShape, TokenCountsBeyondTwoToThe32) {
  BatchShape shape{.rows = 1 << 20, .context = 8192, .accumulation = 16, .world_size = 512};
  EXPECT_EQ(shape.TokensPerStep(), int64_t{1} << 37);
  EXPECT_EQ(shape.FirstSample(int64_t{1} << 20, 0, 0), int64_t{1} << 44);
}

}  // namespace
}  // namespace zeroshard::trainer
