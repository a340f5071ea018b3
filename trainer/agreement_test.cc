#include "zeroshard/trainer/agreement.h"

#include <functional>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

TEST(Fingerprint, SeesWhatChangesTheRunAndNothingElse) {
  const TrainOptions plain;
  const std::vector<std::function<void(TrainOptions&)>> changes = {
      [](TrainOptions& o) { o.run.model.width += 64; },
      [](TrainOptions& o) { o.run.engine.stage = 3; },
      [](TrainOptions& o) { o.run.engine.overlap = !o.run.engine.overlap; },
      [](TrainOptions& o) { o.run.engine.optimizer.schedule.learning_rate *= 1 + 1e-15; },
      [](TrainOptions& o) { o.run.engine.optimizer.groups[0].weight_decay = 0.1; },
      [](TrainOptions& o) { o.run.data.tokens = 7; },
      [](TrainOptions& o) { o.steps = 7; },
  };
  for (const auto& change : changes) {
    TrainOptions changed = plain;
    change(changed);
    EXPECT_NE(Fingerprint(changed), Fingerprint(plain));
  }
  TrainOptions other_file = plain;
  other_file.metrics_path = "m.jsonl";
  other_file.run.seed = 99;  // rank 0's is taken
  EXPECT_EQ(Fingerprint(other_file), Fingerprint(plain));
}

}  // namespace
}  // namespace zeroshard::trainer
