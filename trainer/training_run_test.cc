#include "zeroshard/trainer/training_run.h"

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/trainer/diagnosis.h"
#include "zeroshard/trainer/sampler.h"
#include "zeroshard/trainer/testing/small_run.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using testing::SmallRun;
using testing::StartSmallRun;
using zero::testing::RunOnRanks;

StepReport StepOf(TrainingRun& run, bool stop = false) {
  absl::StatusOr<StepReport> report = run.Step(stop);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : StepReport{};
}

// Loss of the last of three steps.
double Loss(int world_size, const RunOptions& options) {
  double loss = 0;
  RunOnRanks({.world_size = world_size}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, options);
    for (int i = 0; i < 2; ++i) StepOf(*run);
    const double last = StepOf(*run).loss;
    if (communicator.rank() == 0) loss = last;
  });
  return loss;
}

TEST(TrainingRun, RanksWithUnequalRowsOrNoneMakeOneBatch) {
  for (int stage = 0; stage < 4; ++stage) {
    for (int64_t rows : {1, 2, 5}) {
      const double alone = Loss(1, SmallRun(stage, rows));
      EXPECT_NEAR(Loss(3, SmallRun(stage, rows)) / alone, 1, 1e-6) << "stage " << stage << ", rows " << rows;
    }
  }
}

TEST(TrainingRun, RanksPartsOfTheLossMakeTheLoss) {
  RunOnRanks({.world_size = 3}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(2, 5));
    const double loss = StepOf(*run).loss;
    const auto parts = run->LossByRank();
    ASSERT_TRUE(parts.ok());
    ASSERT_EQ(parts->size(), 3u);
    EXPECT_NEAR(std::accumulate(parts->begin(), parts->end(), 0.0), loss, 1e-12);
  });
}

TEST(TrainingRun, OneRanksWishToStopIsEveryRanks) {
  RunOnRanks({.world_size = 3}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(2, 3));
    EXPECT_FALSE(StepOf(*run).stop);
    EXPECT_TRUE(StepOf(*run, /*stop=*/communicator.rank() == 1).stop);
    EXPECT_FALSE(StepOf(*run).stop);
  });
}

TEST(TrainingRun, ActivationCheckpointsChangeNoBitAndSendWhatIsPredicted) {
  std::mutex mutex;
  std::set<std::string> bits;
  for (const auto& [stage, every, on_host, prefetch] : std::vector<std::tuple<int, int, bool, int>>{
           {3, 0, false, 1}, {2, 2, true, 1}, {3, 1, false, 1}, {3, 2, false, 0}, {3, 2, true, 1}, {3, 3, false, 2}}) {
    RunOptions options = SmallRun(stage, 2);
    options.model.layers = 5;
    options.model.checkpoint_every = every;
    options.model.checkpoints_on_host = on_host;
    options.engine.prefetch = prefetch;
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      const auto run = StartSmallRun(communicator, options);
      for (int step = 0; step < 2; ++step) {
        const int64_t before = communicator.wire().sent_bytes(comm::Traffic::kData);
        StepOf(*run);
        ASSERT_TRUE(run->engine().Barrier("end").ok());
        EXPECT_EQ(communicator.wire().sent_bytes(comm::Traffic::kData) - before,
                  zero::PredictDataBytes(run->engine().layout(), run->engine().options(), communicator.rank()))
            << stage << " " << every;
      }
      const auto hex = run->Bits();
      ASSERT_TRUE(hex.ok());
      std::lock_guard<std::mutex> lock(mutex);
      bits.insert(*hex);
    });
  }
  EXPECT_EQ(bits.size(), 1u);
}

TEST(TrainingRun, TwoByteRunsHaveOneSetOfBitsAndFollowFp32) {
  for (const int accumulation : {1, 2}) {
    RunOptions options = SmallRun(0, 2);
    options.engine.accumulation = accumulation;
    const double want = Loss(2, options);
    for (const device::DType dtype : {device::DType::kBfloat16, device::DType::kFloat16}) {
      options.engine.dtype = dtype;
      std::set<double> losses[2];
      for (int stage = 0; stage < 4; ++stage) {
        options.engine.stage = stage;
        losses[accumulation == 1 ? 0 : stage / 2].insert(Loss(2, options));
      }
      for (const std::set<double>& same : losses) {
        EXPECT_LE(same.size(), 1u) << device::Name(dtype) << ", accumulation " << accumulation;
        for (const double loss : same) EXPECT_NEAR(loss / want, 1, 0.01);
      }
    }
  }
}

TEST(TrainingRun, Fp16sLossScaleIsInTheGradientsAndOutOfTheNorm) {
  RunOptions options = SmallRun(0, 2);
  double want = 0;
  RunOnRanks({.world_size = 1}, [&](comm::Communicator& communicator) {
    want = StepOf(*StartSmallRun(communicator, options)).result.gradient_norm;
  });
  options.engine.dtype = device::DType::kFloat16;
  for (int stage = 0; stage < 4; ++stage) {
    options.engine.stage = stage;
    for (const double scale : {0.5, 1024.0}) {
      options.engine.optimizer.loss_scale = {.kind = device::LossScaleKind::kStatic, .value = scale};
      RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
        const zero::StepResult result = StepOf(*StartSmallRun(communicator, options)).result;
        EXPECT_FALSE(result.skipped);
        EXPECT_NEAR(result.gradient_norm / want, 1, 0.02) << "stage " << stage << ", scale " << scale;
      });
    }
  }
}

TEST(TrainingRun, ReportsNormBeforeClippingAndFactor) {
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    RunOptions options = SmallRun(2, 2);
    options.engine.clip = 0.01;
    const auto run = StartSmallRun(communicator, options);
    const zero::StepResult result = StepOf(*run).result;
    EXPECT_GT(result.gradient_norm, 0.01);
    EXPECT_NEAR(result.gradient_norm * result.clip_factor, 0.01, 1e-6);
  });
}

TEST(TrainingRun, LearningRatesAreThoseOfOneRankHoweverManyRanksAndMicroBatchesThereAre) {
  const auto rates = [](int world_size, int accumulation) {
    RunOptions options = SmallRun(2, world_size);
    options.engine.accumulation = accumulation;
    options.engine.optimizer.schedule = {.kind = optim::ScheduleKind::kCosine,
                                         .learning_rate = 0.01,
                                         .min_learning_rate = 0.001,
                                         .warmup_steps = 2,
                                         .total_steps = 5};
    std::vector<double> seen;
    RunOnRanks({.world_size = world_size}, [&](comm::Communicator& communicator) {
      const auto run = StartSmallRun(communicator, options);
      for (int step = 0; step < 6; ++step) {
        const double rate = StepOf(*run).result.learning_rate;
        if (communicator.rank() == 0) seen.push_back(rate);
      }
    });
    return seen;
  };
  const std::vector<double> alone = rates(1, 1);
  EXPECT_GT(std::set<double>(alone.begin(), alone.end()).size(), 3u);
  EXPECT_EQ(rates(4, 4), alone);
}

TEST(Sampler, PicksTheSameTokensInEveryStage) {
  std::mutex mutex;
  std::set<std::vector<int32_t>> sampled;
  for (int stage = 0; stage < 4; ++stage) {
    for (bool keep : {false, true}) {
      RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
        RunOptions options = SmallRun(stage, 2);
        options.engine.keep_parameters = keep;
        const auto run = StartSmallRun(communicator, options);
        StepOf(*run);
        run->ReleaseActivations();
        // More than one context: the window moves on.
        const auto tokens = SampleTokens(*run, {.tokens = 40, .seed = 3}, {32});
        ASSERT_TRUE(tokens.ok()) << tokens.status();
        EXPECT_EQ(tokens->size(), 40u);
        EXPECT_TRUE(run->Bits().ok());
        std::lock_guard<std::mutex> lock(mutex);
        sampled.insert(*tokens);
      });
    }
  }
  EXPECT_EQ(sampled.size(), 1u);
}

TEST(Diagnosis, NamesTheFirstBadTensor) {
  RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    const auto run = StartSmallRun(communicator, SmallRun(3, 2));
    const std::string name = "transformer.h.1.mlp.c_fc.bias";
    std::vector<float> bias(128, 0.0f);
    bias[5] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(run->engine().WriteParameter(name, bias).ok());
    const StepReport report = StepOf(*run);
    EXPECT_TRUE(std::isnan(report.loss));
    EXPECT_TRUE(report.result.skipped);
    const auto words = DescribeNonFinite(*run);
    ASSERT_TRUE(words.ok()) << words.status();
    EXPECT_THAT(*words,
                ::testing::AllOf(::testing::HasSubstr("rank 0's part of the loss is nan"),
                                 ::testing::HasSubstr("parameter '" + name + "' [128] holds 1 value that is not finite")));
  });
}

TEST(Diagnosis, NamesAnInfiniteGradientOfBf16WithItsRankAndNoLossScale) {
  for (int stage = 0; stage < 4; ++stage) {
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      RunOptions options = SmallRun(stage, 2);
      options.engine.dtype = device::DType::kBfloat16;
      const auto run = StartSmallRun(communicator, options);
      StepOf(*run);
      zero::Engine& engine = run->engine();
      for (int unit = static_cast<int>(run->units().size()) - 1; unit >= 0; --unit) {
        ASSERT_TRUE(engine.Unshard(unit, model::Pass::kBackward).ok());
        const auto targets = engine.gradients(unit);
        ASSERT_TRUE(targets.ok());
        for (const model::GradientTarget& target : *targets) {
          engine.compute().device().elementwise().Fill(engine.compute(), target.array, 0);
        }
        if (unit == 2 && communicator.rank() == 1) {
          engine.compute().device().elementwise().Fill(engine.compute(), targets->back().array.Slice(3, 1),
                                                       std::numeric_limits<double>::infinity());
        }
        ASSERT_TRUE(engine.GradientsReady(unit).ok());
        ASSERT_TRUE(engine.Reshard(unit).ok());
      }
      ASSERT_TRUE(engine.Step().ok());
      ASSERT_TRUE(engine.Result()->skipped);
      const auto words = DescribeNonFinite(*run);
      ASSERT_TRUE(words.ok()) << words.status();
      EXPECT_EQ(*words, "the gradient of '" + run->units()[2].parameters.back().name + "' (unit " + run->units()[2].name +
                            ", bf16) holds Inf on rank 1");
    });
  }
}

}  // namespace
}  // namespace zeroshard::trainer
