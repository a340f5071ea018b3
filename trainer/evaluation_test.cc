#include "zeroshard/trainer/evaluation.h"

#include <map>
#include <mutex>
#include <string>

#include "gtest/gtest.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using testing::SmallRun;
using testing::SmallText;
using testing::StartSmallRun;
using zero::testing::RunOnRanks;

PreparedData Data(const std::string& name, int numbers) {
  return *PrepareData({.path = SmallText(name, numbers), .tokenizer = "bytes"}, 16);
}

// The loss of one evaluation after `steps` steps.
double LossAfter(int world_size, const RunOptions& options, const PreparedData& data, int64_t batches, int steps) {
  double loss = 0;
  RunOnRanks({.world_size = world_size}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, options);
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(run->Step(false).ok());
    const auto evaluation = Evaluation::Create(*run, data, batches);
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    const absl::StatusOr<double> mine = (*evaluation)->Run();
    ASSERT_TRUE(mine.ok()) << mine.status();
    if (communicator.rank() == 0) loss = *mine;
  });
  return loss;
}

TEST(Evaluation, IsTheMeanOverAllTokensHoweverTheyAreDealtOut) {
  // 13 sequences and a bit: no number of rows and ranks here divides them.
  const PreparedData data = Data("eval.txt", 52);
  const double alone = LossAfter(1, SmallRun(0, 1), data, 1000, 1);
  EXPECT_GT(alone, 1);
  for (const int64_t rows : {2, 5, 64}) {
    for (const int stage : {0, 2, 3}) {
      EXPECT_NEAR(LossAfter(3, SmallRun(stage, 1), data, 1000, 1) / alone, 1, 1e-6) << rows << " rows, stage " << stage;
      EXPECT_NEAR(LossAfter(3, SmallRun(stage, rows), data, 1000, 0) / LossAfter(1, SmallRun(0, 1), data, 1000, 0), 1, 1e-6);
    }
  }
}

TEST(Evaluation, ReadsNoMoreThanItsBatches) {
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(2, 3));
    const PreparedData data = Data("eval_" + std::to_string(communicator.rank()) + ".txt", 500);
    const auto few = Evaluation::Create(*run, data, 2), all = Evaluation::Create(*run, data, 1 << 20);
    ASSERT_TRUE(few.ok() && all.ok());
    EXPECT_EQ((*few)->tokens(), 2 * 3 * 16);
    EXPECT_EQ((*all)->tokens(), (data.tokens - 1) / 16 * 16);
  });
}

// Weights, losses, and so the bits of both.
TEST(Evaluation, LeavesTrainingsBitsAlone) {
  const PreparedData data = Data("eval_bits.txt", 100);
  for (int stage = 0; stage < 4; ++stage) {
    for (const bool keep : {false, true}) {
      std::map<bool, std::string> bits;
      std::mutex mutex;
      for (const bool evaluates : {false, true}) {
        RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
          RunOptions options = SmallRun(stage, 3);
          options.engine.keep_parameters = keep;
          options.engine.accumulation = 2;
          const auto run = StartSmallRun(communicator, options);
          const auto evaluation = Evaluation::Create(*run, data, 3);
          ASSERT_TRUE(evaluation.ok());
          for (int i = 0; i < 4; ++i) {
            ASSERT_TRUE(run->Step(false).ok());
            if (evaluates) {
              const auto loss = (*evaluation)->Run();
              ASSERT_TRUE(loss.ok()) << loss.status();
            }
          }
          const auto hex = run->Bits();
          ASSERT_TRUE(hex.ok());
          const std::lock_guard<std::mutex> lock(mutex);
          bits[evaluates] = *hex;
        });
      }
      EXPECT_EQ(bits[false], bits[true]) << "stage " << stage << ", keep " << keep;
    }
  }
}

TEST(Evaluation, RefusesAnotherVocabularyAndNoBatches) {
  RunOnRanks({.world_size = 1}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(0, 1));
    PreparedData data = Data("eval_bad.txt", 100);
    EXPECT_EQ(Evaluation::Create(*run, data, 0).status().code(), absl::StatusCode::kInvalidArgument);
    data.vocab = 300;
    EXPECT_EQ(Evaluation::Create(*run, data, 1).status().code(), absl::StatusCode::kInvalidArgument);
  });
}

}  // namespace
}  // namespace zeroshard::trainer
