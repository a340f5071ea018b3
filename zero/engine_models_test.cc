// Models and schedules that are odd: tiny, frozen, tied, unused, used twice, in another order. All give what plain loops give.

#include <gtest/gtest.h>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using model::UnitSpec;
using testing::EqualUnits;
using testing::ExpectReference;
using testing::OddUnits;
using testing::Schedule;
using testing::TrainingOptions;

// In every stage and partition, with and without overlap.
void ExpectEverywhere(const std::vector<UnitSpec>& units, int accumulation, const TrainingOptions& training,
                      std::vector<int> worlds = {1, 2, 3}) {
  for (int world : worlds) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
        for (bool overlap : {true, false}) {
          EngineOptions options;
          options.stage = stage;
          options.partition = partition;
          options.overlap = overlap;
          options.accumulation = accumulation;
          options.reduce_bucket_size = 300;
          options.clip = 1;
          options.optimizer.groups = {{.weight_decay = 0.1}, {}};
          ExpectReference(units, options, {.world_size = world}, training);
        }
      }
    }
  }
}

TEST(EngineModels, FewerElementsThanRanks) {
  ExpectEverywhere({{.name = "u", .parameters = {{.name = "a", .shape = {2}}}}}, 1, {.steps = 2}, {1, 2, 4, 5});
  ExpectEverywhere({{.name = "u", .parameters = {{.name = "a", .shape = {3}, .group = 1}, {.name = "b", .shape = {100}}}}},
                   1, {.steps = 2}, {4});
}

TEST(EngineModels, EmptyTensorsAreSteppedOver) {
  ExpectEverywhere(
      {{.name = "u",
        .parameters = {{.name = "a", .shape = {4, 4}}, {.name = "b", .shape = {4}}, {.name = "e", .shape = {0, 4}}}},
       {.name = "none", .parameters = {{.name = "z", .shape = {8, 0}}}},
       {.name = "bare", .parameters = {}}},
      1, {.steps = 2});
}

TEST(EngineModels, AllFrozenStepsWithoutAGradient) {
  ExpectEverywhere({{.name = "u", .parameters = {{.name = "a", .shape = {100}, .trainable = false}}},
                    {.name = "v", .parameters = {{.name = "b", .shape = {7}, .trainable = false}}}},
                   1, {.steps = 2});
}

TEST(EngineModels, OneTrainableTensorAmongFrozenOnes) {
  std::vector<UnitSpec> units = EqualUnits(5, 90);
  for (int u : {0, 1, 3, 4}) units[u].parameters[0].trainable = false;
  ExpectEverywhere(units, 2, {.steps = 2});
}

TEST(EngineModels, ParametersThatAreFrozenAndUnfrozenBetweenSteps) {
  std::vector<UnitSpec> units = OddUnits();
  units[3].parameters[0].frozen = true;
  const auto freeze = [&](int step) -> std::vector<std::pair<std::string, bool>> {
    if (step == 1) return {{"wte", true}, {units[3].parameters[0].name, false}};
    if (step == 2) return {{"block.0.weight", true}, {"norm", true}};
    if (step == 3) return {{"wte", false}, {"norm", false}};
    return {};
  };
  ExpectEverywhere(units, 1, {.steps = 4, .freeze = freeze});
  ExpectEverywhere(units, 2, {.steps = 4, .freeze = freeze}, {2});
}

TEST(EngineModels, OneUnitAddsUpItsMicroBatchesInOrder) { ExpectEverywhere(EqualUnits(1, 150), 3, {.steps = 2}); }

TEST(EngineModels, LayersThatTakeTurns) {
  const auto schedule = [](int step) { return Schedule{{0, step % 2 == 0 ? 1 : 2, 3}}; };
  ExpectEverywhere(EqualUnits(4, 150), 1, {.steps = 4, .schedule = schedule});
}

TEST(EngineModels, AGradientThatAppearsInOneMicroBatchOnly) {
  const auto schedule = [](int) { return Schedule{{0, 2}, {0, 1, 2}, {0, 2}, {0, 2}}; };
  ExpectEverywhere(EqualUnits(3, 150), 4, {.steps = 3, .schedule = schedule});
}

TEST(EngineModels, AUnitThatIsNeverUsedHasAGradientOfZero) {
  ExpectEverywhere(EqualUnits(3, 150), 1, {.steps = 3, .schedule = [](int) { return Schedule{{0, 2}}; }});
}

TEST(EngineModels, OnlyOneEndOfATiedParameterIsUsed) {
  ExpectEverywhere(OddUnits(), 1, {.steps = 3, .schedule = [](int step) {
                                     return step == 1 ? Schedule{{1, 2, 5}} : Schedule{{0, 1, 2, 3, 4, 5}};
                                   }});
}

TEST(EngineModels, FewerMicroBatchesThanAccumulation) {
  ExpectEverywhere(OddUnits(), 3, {.steps = 2, .schedule = [](int) {
                                     return Schedule{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}};
                                   }});
}

TEST(EngineModels, AUnitUsedTwiceAMicroBatch) {
  std::vector<UnitSpec> units = EqualUnits(3, 150);
  units[1].uses = 2;
  ExpectEverywhere(units, 2, {.steps = 3, .schedule = [](int) { return Schedule{{0, 1, 2, 1}, {0, 1, 2, 1}}; }});
}

TEST(EngineModels, AParameterTiedWithinItsUnit) {
  ExpectEverywhere({{.name = "u",
                     .parameters = {{.name = "a", .shape = {100}},
                                    {.name = "b", .shape = {30}},
                                    {.name = "c", .shape = {100}, .tied_to = "a"}}},
                    {.name = "v", .parameters = {{.name = "d", .shape = {30}, .tied_to = "b"}}}},
                   2, {.steps = 2});
}

TEST(EngineModels, UnitsInAnotherOrderEachStep) {
  const auto schedule = [](int step) { return step % 2 == 0 ? Schedule{{0, 1, 2, 3}} : Schedule{{3, 1, 0, 2}}; };
  ExpectEverywhere(EqualUnits(4, 150), 1, {.steps = 4, .schedule = schedule});
}

TEST(EngineModels, ATensorMuchLargerThanABucketFirstAndLast) {
  std::vector<UnitSpec> units = EqualUnits(3, 70);
  units[0].parameters[0].shape = {32768};
  ExpectEverywhere(units, 1, {.steps = 1}, {2});
  std::swap(units[0], units[2]);
  ExpectEverywhere(units, 1, {.steps = 1}, {2});
}

TEST(EngineModels, PaddingFullOfNaNIsSeenByNobody) {
  ExpectEverywhere(OddUnits(), 2, {.steps = 2, .padding = testing::Padding::kNaN});
}

// One forward pass over all units that nothing follows.
absl::Status Evaluate(Engine& engine) {
  const int units = static_cast<int>(engine.layout().units().size());
  for (int u = 0; u < units; ++u) {
    ZS_RETURN_IF_ERROR(engine.Unshard(u, Pass::kForward));
    ZS_RETURN_IF_ERROR(engine.parameters(u).status());
    ZS_RETURN_IF_ERROR(engine.Reshard(u));
  }
  return absl::OkStatus();
}

TEST(EngineModels, EvaluationBetweenStepsChangesNothing) {
  ExpectEverywhere(OddUnits(), 1, {.steps = 3, .before_step = [](Engine& engine, int) { return Evaluate(engine); }});
}

TEST(EngineModels, AStepAbandonedHalfWayLeavesNothing) {
  const auto abandon = [](Engine& engine, int step) -> absl::Status {
    const int units = static_cast<int>(engine.layout().units().size());
    if (step == 1) ZS_RETURN_IF_ERROR(Evaluate(engine));
    for (int u = units - 1; u >= 1 + step; --u) {
      ZS_RETURN_IF_ERROR(engine.Unshard(u, Pass::kBackward));
      ZS_ASSIGN_OR_RETURN(const auto targets, engine.gradients(u));
      for (const model::GradientTarget& target : targets) {
        if (!target.array.empty()) engine.compute().device().elementwise().Fill(engine.compute(), target.array, 1e30);
      }
      if (u == 1 + step) break;  // its gradients are never ready
      ZS_RETURN_IF_ERROR(engine.GradientsReady(u));
      ZS_RETURN_IF_ERROR(engine.Reshard(u));
    }
    return engine.Abandon();
  };
  ExpectEverywhere(OddUnits(), 2, {.steps = 3, .before_step = abandon});
}

}  // namespace
}  // namespace zeroshard::zero
