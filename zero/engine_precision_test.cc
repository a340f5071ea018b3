// What two-byte training keeps and what it loses: masters, accumulators, averages, the loss scale, skipped steps.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/precision.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using device::DType;
using device::LossScaleKind;
using testing::EqualUnits;
using testing::OddUnits;
using testing::RunOnRanks;

EngineOptions Options(int stage, DType dtype) {
  EngineOptions options;
  options.stage = stage;
  options.dtype = dtype;
  options.optimizer.groups = {{}, {}};
  return options;
}

// Backward of unit 0, all of whose gradient is `value`.
absl::Status Backward(Engine& engine, double value) {
  ZS_RETURN_IF_ERROR(engine.Unshard(0, Pass::kBackward));
  ZS_ASSIGN_OR_RETURN(const auto targets, engine.gradients(0));
  engine.compute().device().elementwise().Fill(engine.compute(), targets[0].array, value);
  ZS_RETURN_IF_ERROR(engine.GradientsReady(0));
  return engine.Reshard(0);
}

// An engine of one unit of 100 elements on each rank, in every stage.
void OnEveryStage(int world_size, const std::function<void(EngineOptions&)>& change,
                  const std::function<absl::Status(Engine&, comm::Communicator&)>& check) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      EngineOptions options = Options(stage, DType::kBfloat16);
      options.partition = partition;
      change(options);
      SCOPED_TRACE(testing::Describe(options, world_size));
      RunOnRanks({.world_size = world_size}, [&](comm::Communicator& communicator) {
        auto engine = Engine::Create(communicator, EqualUnits(1, 100), options);
        ASSERT_TRUE(engine.ok()) << engine.status();
        const absl::Status status = check(**engine, communicator);
        EXPECT_EQ(status, absl::OkStatus());
      });
    }
  }
}

TEST(EnginePrecision, ParametersAreTheMastersRoundedOnce) {
  OnEveryStage(
      2, [](EngineOptions&) {},
      [](Engine& engine, comm::Communicator&) -> absl::Status {
        std::vector<float> values(100);
        for (size_t i = 0; i < values.size(); ++i) values[i] = 1 + 0.001f * static_cast<float>(i);
        ZS_RETURN_IF_ERROR(engine.WriteParameter("unit.0.weight", values));
        for (int step = 0; step < 2; ++step) {
          std::vector<float> masters(100);
          ZS_RETURN_IF_ERROR(engine.ReadParameter("unit.0.weight", masters));
          if (step == 0) {
            EXPECT_EQ(masters, values);
          }
          ZS_RETURN_IF_ERROR(engine.Unshard(0, Pass::kForward));
          ZS_ASSIGN_OR_RETURN(const auto parameters, engine.parameters(0));
          EXPECT_EQ(parameters[0].dtype(), DType::kBfloat16);
          std::vector<device::Bfloat16> seen(100);
          engine.compute().device().CopyToHost(engine.compute(), parameters[0], seen.data());
          engine.compute().Synchronize();
          for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i].bits, device::ToBfloat16(masters[i]).bits);
          ZS_RETURN_IF_ERROR(engine.Reshard(0));
          ZS_RETURN_IF_ERROR(Backward(engine, 1));
          ZS_RETURN_IF_ERROR(engine.Step());
        }
        return absl::OkStatus();
      });
}

// In bf16, 1 + 0.001 is 1.
TEST(EnginePrecision, AThousandSmallGradientsAreNotLostBesideOne) {
  const auto change = [](EngineOptions& options) {
    options.accumulation = 1001;
    options.average = false;
  };
  OnEveryStage(1, change, [](Engine& engine, comm::Communicator&) -> absl::Status {
    for (int m = 0; m <= 1000; ++m) {
      ZS_RETURN_IF_ERROR(engine.Unshard(0, Pass::kBackward));
      ZS_ASSIGN_OR_RETURN(const auto targets, engine.gradients(0));
      device::Elementwise& elementwise = engine.compute().device().elementwise();
      if (targets[0].accumulate) {
        EXPECT_EQ(targets[0].array.dtype(), DType::kFloat32);
        const double factor = (1 + m * 0.001) / (1 + (m - 1) * 0.001);
        elementwise.Scale(engine.compute(), targets[0].array, factor);
      } else {
        elementwise.Fill(engine.compute(), targets[0].array, m == 0 ? 1 : 0.001);
      }
      ZS_RETURN_IF_ERROR(engine.GradientsReady(0));
      ZS_RETURN_IF_ERROR(engine.Reshard(0));
    }
    std::vector<float> gradient(100);
    ZS_RETURN_IF_ERROR(engine.ReadGradient("unit.0.weight", gradient));
    for (float g : gradient) EXPECT_NEAR(g, 2, 2e-3);
    return absl::OkStatus();
  });
}

TEST(EnginePrecision, AnAverageOverThirtyTwoRanksNeitherOverflowsNorVanishesInFp16) {
  for (double value : {4096.0, 6e-8}) {
    for (int stage : {0, 1, 2, 3}) {
      const EngineOptions options = Options(stage, DType::kFloat16);
      RunOnRanks({.world_size = 32}, [&](comm::Communicator& communicator) {
        auto engine = Engine::Create(communicator, EqualUnits(1, 100), options);
        ASSERT_TRUE(engine.ok()) << engine.status();
        ASSERT_EQ(Backward(**engine, value), absl::OkStatus());
        ASSERT_EQ((*engine)->Step(), absl::OkStatus());
        EXPECT_FALSE((*engine)->Result()->skipped);
        std::vector<float> gradient(100);
        ASSERT_EQ((*engine)->ReadGradient("unit.0.weight", gradient), absl::OkStatus());
        EXPECT_EQ(gradient, std::vector<float>(100, ToFloat(device::ToFloat16(static_cast<float>(value)))));
      });
    }
  }
}

// What dividing before the sum does to fp16: 32 times 4096 fits once more, and 6e-8 vanishes.
TEST(EnginePrecision, DividingBeforeTheSumKeepsLargeValuesAndLosesSmallOnes) {
  for (bool prescale : {true, false}) {
    for (double value : {4096.0, 6e-8}) {
      EngineOptions options = Options(2, DType::kFloat16);
      options.prescale_gradients = prescale;
      options.gradient_predivide_factor = prescale ? 1 : 16;
      RunOnRanks({.world_size = 32}, [&](comm::Communicator& communicator) {
        auto engine = Engine::Create(communicator, EqualUnits(1, 100), options);
        ASSERT_TRUE(engine.ok()) << engine.status();
        ASSERT_EQ(Backward(**engine, value), absl::OkStatus());
        ASSERT_EQ((*engine)->Step(), absl::OkStatus());
        EXPECT_FALSE((*engine)->Result()->skipped);
        std::vector<float> gradient(100);
        ASSERT_EQ((*engine)->ReadGradient("unit.0.weight", gradient), absl::OkStatus());
        EXPECT_EQ(gradient, std::vector<float>(100, value > 1 ? 4096 : 0));
      });
    }
  }
}

TEST(EnginePrecision, ACommunicationDTypeIsWhatTravels) {
  for (int stage : {0, 1, 2, 3}) {
    EngineOptions options = Options(stage, DType::kFloat32);
    options.communication_dtype = DType::kFloat16;
    options.average = false;
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      auto engine = Engine::Create(communicator, EqualUnits(1, 100), options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      ASSERT_EQ(Backward(**engine, 0.1), absl::OkStatus());
      std::vector<float> gradient(100);
      ASSERT_EQ((*engine)->ReadGradient("unit.0.weight", gradient), absl::OkStatus());
      EXPECT_EQ(gradient, std::vector<float>(100, 2 * ToFloat(device::ToFloat16(0.1f))));
    });
  }
}

TEST(EnginePrecision, ThreeOverflowsMoveTheLossScaleAndNothingElse) {
  const auto change = [](EngineOptions& options) {
    options.dtype = DType::kFloat16;
    options.optimizer.loss_scale = {.kind = LossScaleKind::kDynamic};
    options.optimizer.schedule = {.kind = optim::ScheduleKind::kLinear, .learning_rate = 1, .total_steps = 10};
  };
  OnEveryStage(2, change, [](Engine& engine, comm::Communicator& communicator) -> absl::Status {
    const std::vector<double> scales = {65536, 65536, 32768, 16384, 16384};
    ZS_RETURN_IF_ERROR(engine.WriteParameter("unit.0.weight", std::vector<float>(100, 1)));
    for (int step = 0; step < 5; ++step) {
      float scale = 0;
      engine.compute().device().CopyToHost(engine.compute(), engine.loss_scale(), &scale);
      engine.compute().Synchronize();
      EXPECT_EQ(scale, scales[step]);
      const bool overflows = step < 3 && communicator.rank() == 1;
      ZS_RETURN_IF_ERROR(Backward(engine, overflows ? std::numeric_limits<double>::infinity() : 0.25 * scale));
      ZS_RETURN_IF_ERROR(engine.Step());
      ZS_ASSIGN_OR_RETURN(const StepResult result, engine.Result());
      EXPECT_EQ(result.loss_scale, scales[step]);
      EXPECT_EQ(result.skipped, step < 3);
      EXPECT_EQ(result.skipped_steps, std::min(step + 1, 3));
      EXPECT_EQ(result.applied_steps, std::max(step - 2, 0));
      EXPECT_EQ(result.learning_rate, step < 4 ? 1 : 0.9);
      std::vector<float> values(100);
      ZS_RETURN_IF_ERROR(engine.ReadMoment("exp_avg", "unit.0.weight", values));
      EXPECT_EQ(values == std::vector<float>(100, 0), step < 3);
      ZS_RETURN_IF_ERROR(engine.ReadParameter("unit.0.weight", values));
      EXPECT_EQ(values == std::vector<float>(100, 1), step < 3);
      if (step < 3) continue;
      EXPECT_EQ(result.gradient_norm, 2.5) << "unscaled";
      ZS_RETURN_IF_ERROR(engine.ReadGradient("unit.0.weight", values));
      EXPECT_EQ(values, std::vector<float>(100, 0.25));
    }
    return absl::OkStatus();
  });
}

// The toy model's gradients overflow at the first scales where backward leaves fp16, and do not later on.
TEST(EnginePrecision, ADynamicLossScaleGivesTheSameBitsInEveryStage) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      for (int accumulation : {1, 2}) {
        EngineOptions options = Options(stage, DType::kFloat16);
        options.partition = partition;
        options.accumulation = accumulation;
        options.reduce_bucket_size = 500;
        options.clip = 1;
        options.optimizer.loss_scale = {.kind = LossScaleKind::kDynamic, .initial_power = 17, .hysteresis = 1};
        const auto runs = testing::ExpectReference(OddUnits(), options, {.world_size = 3}, {.steps = 7});
        const bool on_rank = PrecisionOf(options, 3).backward == DType::kFloat16;
        EXPECT_EQ(runs[0].results.front().skipped, on_rank);
        EXPECT_FALSE(runs[0].results.back().skipped);
      }
    }
  }
}

}  // namespace
}  // namespace zeroshard::zero
