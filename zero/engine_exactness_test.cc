// Every stage, partition, bucket, order and optimizer against plain loops on one thread, bit for bit.

#include <gtest/gtest.h>

#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using testing::ExpectReference;
using testing::OddUnits;

EngineOptions BaseOptions() {
  EngineOptions options;
  options.reduce_bucket_size = 1000;
  options.clip = 0.5;
  options.optimizer.schedule.learning_rate = 0.01;
  options.optimizer.groups = {{.weight_decay = 0.1}, {.weight_decay = 0, .learning_rate_scale = 0.5}};
  return options;
}

struct Case {
  int stage;
  Partition partition;
  int world_size;
};

class EngineExactness : public ::testing::TestWithParam<Case> {
 protected:
  EngineOptions Options() const {
    EngineOptions options = BaseOptions();
    options.stage = GetParam().stage;
    options.partition = GetParam().partition;
    return options;
  }
  void Expect(const EngineOptions& options, int steps = 3) const {
    ExpectReference(OddUnits(), options, {.world_size = GetParam().world_size}, {.steps = steps});
  }
};

TEST_P(EngineExactness, BucketSizesAndOverlapChangeNothing) {
  for (int64_t bucket : {1, 1000, 100000000}) {
    for (bool overlap : {true, false}) {
      EngineOptions options = Options();
      options.reduce_bucket_size = bucket;
      options.overlap = overlap;
      Expect(options);
    }
  }
}

TEST_P(EngineExactness, ReduceScatterOrAllReduceAndTheOrderOfGradientsChangeNothing) {
  for (bool reduce_scatter : {true, false}) {
    for (bool round_robin : {true, false}) {
      EngineOptions options = Options();
      options.reduce_scatter = reduce_scatter;
      options.round_robin_gradients = round_robin;
      Expect(options);
    }
  }
}

TEST_P(EngineExactness, MicroBatchesAddUpInTheStagesOrder) {
  for (int accumulation : {2, 3}) {
    for (bool overlap : {true, false}) {
      for (bool reduce_scatter : {true, false}) {
        EngineOptions options = Options();
        options.accumulation = accumulation;
        options.overlap = overlap;
        options.reduce_scatter = reduce_scatter;
        Expect(options, /*steps=*/3);
      }
    }
  }
}

TEST_P(EngineExactness, EveryOwnershipGivesTheSame) {
  for (Ownership owner : {Ownership::kRoundRobin, Ownership::kContiguous, Ownership::kBalanced}) {
    EngineOptions options = Options();
    options.partition = Partition::kTensor;
    options.owner = owner;
    Expect(options);
  }
}

TEST_P(EngineExactness, PrefetchAndKeptParametersChangeNothing) {
  for (int prefetch : {0, 1, 2, 50}) {
    for (bool keep : {false, true}) {
      EngineOptions options = Options();
      options.prefetch = prefetch;
      options.stage = 3;
      options.keep_parameters = keep;
      options.accumulation = 2;
      Expect(options);
    }
  }
}

TEST_P(EngineExactness, EveryOptimizer) {
  for (optim::Kind kind : {optim::Kind::kAdamW, optim::Kind::kAdam, optim::Kind::kSgd}) {
    for (double momentum : {0.0, 0.9}) {
      if (kind != optim::Kind::kSgd && momentum != 0) continue;
      EngineOptions options = Options();
      options.optimizer.kind = kind;
      options.optimizer.momentum = momentum;
      options.optimizer.nesterov = momentum != 0;
      options.optimizer.schedule = {
          .kind = optim::ScheduleKind::kCosine, .learning_rate = 0.1, .warmup_steps = 1, .total_steps = 4};
      Expect(options, /*steps=*/4);
    }
  }
}

// Accumulation 1 keeps gradients in the compute dtype, 2 in fp32, unless told.
TEST_P(EngineExactness, TwoByteParametersAndGradients) {
  if (GetParam().world_size == 4) GTEST_SKIP() << "five ranks have its tree";
  for (device::DType dtype : {device::DType::kBfloat16, device::DType::kFloat16}) {
    for (int accumulation : {1, 2}) {
      for (bool reduce_scatter : {true, false}) {
        EngineOptions options = Options();
        options.dtype = dtype;
        options.accumulation = accumulation;
        options.reduce_scatter = reduce_scatter;
        options.overlap = (dtype == device::DType::kFloat16) == reduce_scatter;
        options.reduce_bucket_size = accumulation == 1 ? 1000 : 100000;
        Expect(options, /*steps=*/2);
      }
    }
  }
}

TEST_P(EngineExactness, GradientsKeptInEitherDType) {
  if (GetParam().world_size == 4) GTEST_SKIP() << "five ranks have its tree";
  for (device::DType gradients : {device::DType::kFloat32, device::DType::kBfloat16}) {
    for (int accumulation : {1, 2}) {
      EngineOptions options = Options();
      options.dtype = device::DType::kBfloat16;
      options.gradient_dtype = gradients;
      options.accumulation = accumulation;
      Expect(options, /*steps=*/2);
    }
  }
}

TEST_P(EngineExactness, GradientsThatTravelInAnotherDTypeOrDividedBefore) {
  if (GetParam().world_size == 4) GTEST_SKIP() << "five ranks have its tree";
  for (device::DType dtype : {device::DType::kFloat32, device::DType::kBfloat16}) {
    for (int accumulation : {1, 2}) {
      EngineOptions options = Options();
      options.dtype = dtype;
      options.accumulation = accumulation;
      options.communication_dtype = dtype == device::DType::kFloat32 ? device::DType::kFloat16 : device::DType::kFloat32;
      options.reduce_scatter = accumulation == 2;
      Expect(options, /*steps=*/2);
      options.prescale_gradients = accumulation == 1;
      options.gradient_predivide_factor = accumulation == 1 ? 1 : 3;
      options.overlap = false;
      Expect(options, /*steps=*/2);
      options.communication_dtype = {};
      Expect(options, /*steps=*/2);
    }
  }
}

TEST_P(EngineExactness, SumsInPlaceOfAverages) {
  EngineOptions options = Options();
  options.average = false;
  options.gradient_scale = 0.25;
  options.clip = 0;
  Expect(options);
  options.dtype = device::DType::kFloat16;
  Expect(options);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int world = 1; world <= 5; ++world) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (Partition partition : {Partition::kFlat, Partition::kTensor}) cases.push_back({stage, partition, world});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AllStages, EngineExactness, ::testing::ValuesIn(Cases()), [](const auto& tested) {
  return "Stage" + std::to_string(tested.param.stage) + std::string(Name(tested.param.partition)) + "World" +
         std::to_string(tested.param.world_size);
});

}  // namespace
}  // namespace zeroshard::zero
