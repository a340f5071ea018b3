#include "zeroshard/trainer/testing/small_run.h"

#include <fstream>

#include "gtest/gtest.h"
#include "zeroshard/trainer/initialize.h"

namespace zeroshard::trainer::testing {

std::string SmallText(const std::string& name, int numbers) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream text(path);
  for (int i = 0; i < numbers; ++i) text << i * i << ' ';
  return path;
}

RunOptions SmallRun(int stage, int64_t rows) {
  static const std::string path = SmallText("small_run.txt", 2000);
  RunOptions options;
  options.model = {.layers = 2, .heads = 2, .width = 32, .context = 16, .vocab = 256};
  options.engine.stage = stage;
  options.engine.clip = 1;
  options.engine.optimizer.groups = {{.weight_decay = 0.1}, {.weight_decay = 0}};
  options.rows = rows;
  options.data = *PrepareData({.path = path, .tokenizer = "bytes"}, 16);
  return options;
}

std::unique_ptr<TrainingRun> StartSmallRun(comm::Communicator& communicator, const RunOptions& options) {
  auto run = TrainingRun::Create(communicator, options, [&](zero::Engine& engine, const auto& units) {
    return InitializeWeights(engine, units, options.model.layers, /*seed=*/1, communicator.rank());
  });
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : nullptr;
}

}  // namespace zeroshard::trainer::testing
