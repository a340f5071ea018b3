// State outside device memory: the same bits, the bytes of the formulas in both ledgers, no allocation, no file left.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "zeroshard/device/exact_sum.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

namespace fs = std::filesystem;

using device::DType;
using device::Use;
using testing::ExpectReference;
using testing::OddUnits;
using testing::RunOnRanks;

// For the files of a test's ranks; whatever they leave there fails it.
class Folder {
 public:
  Folder() : path_(fs::path(::testing::TempDir()) / ("offload_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() {
    EXPECT_TRUE(fs::is_empty(path_));
    fs::remove_all(path_);
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

struct Case {
  int stage;
  Partition partition;
  OffloadTarget target;
};

class EngineOffload : public ::testing::TestWithParam<Case> {
 protected:
  EngineOptions Options() const {
    EngineOptions options;
    options.stage = GetParam().stage;
    options.partition = GetParam().partition;
    options.reduce_bucket_size = 1000;
    options.clip = 0.5;
    options.optimizer.schedule.learning_rate = 0.01;
    options.optimizer.groups = {{.weight_decay = 0.1}, {.weight_decay = 0, .learning_rate_scale = 0.5}};
    options.offload_optimizer = {.target = GetParam().target, .folder = folder_.path()};
    options.sub_group_size = 700;
    return options;
  }
  // Every sub-group size, that is none, some and many of them, of which none divides anything.
  void ForEachSubGroupAndShare(const std::function<void(const EngineOptions&)>& check) const {
    for (const int64_t size : {int64_t{1}, int64_t{700}, int64_t{1'000'000'000}}) {
      for (const double ratio : {1.0, 0.4, 0.0}) {
        EngineOptions options = Options();
        options.sub_group_size = size;
        options.offload_ratio = ratio;
        check(options);
      }
    }
  }

  Folder folder_;
};

TEST_P(EngineOffload, SubGroupsAndSharesChangeNoBit) {
  ForEachSubGroupAndShare([](const EngineOptions& options) {
    SCOPED_TRACE(options.sub_group_size);
    SCOPED_TRACE(options.offload_ratio);
    ExpectReference(OddUnits(), options, {.world_size = 2}, {.steps = 3});
  });
}

TEST_P(EngineOffload, EveryPrecisionKeepsItsBitsWithAccumulation) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (const int accumulation : {1, 2}) {
      EngineOptions options = Options();
      options.dtype = dtype;
      options.accumulation = accumulation;
      options.offload_ratio = accumulation == 1 ? 1 : 0.7;
      SCOPED_TRACE(device::Name(dtype));
      ExpectReference(OddUnits(), options, {.world_size = 3}, {.steps = 3});
    }
  }
}

TEST_P(EngineOffload, EveryOptimizerKeepsItsBits) {
  for (const double momentum : {-1.0, 0.0, 0.9}) {  // -1: Adam
    EngineOptions options = Options();
    if (momentum >= 0) {
      options.optimizer.kind = optim::Kind::kSgd;
      options.optimizer.momentum = momentum;
      options.dtype = DType::kBfloat16;
    }
    ExpectReference(OddUnits(), options, {.world_size = 1}, {.steps = 2});
  }
}

TEST_P(EngineOffload, ParametersOutsideTheDeviceKeepTheirBits) {
  if (GetParam().stage < 3) return;
  for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      for (const bool overlap : {true, false}) {
        EngineOptions options = Options();
        options.offload_parameters = {.target = target, .folder = folder_.path()};
        options.dtype = dtype;
        options.overlap = overlap;
        options.accumulation = overlap ? 2 : 1;
        options.prefetch = overlap ? 2 : 1;
        options.persistence_threshold = dtype == DType::kBfloat16 ? 20 : 0;
        SCOPED_TRACE(device::Name(dtype));
        const auto runs = ExpectReference(OddUnits(), options, {.world_size = 3}, {.steps = 3});
        const absl::StatusOr<Layout> layout = Layout::Create(OddUnits(), LayoutOptionsOf(options, 3));
        ASSERT_TRUE(layout.ok());
        for (int rank = 0; rank < 3; ++rank) {
          EXPECT_EQ(runs[rank].data_bytes.back(), PredictDataBytes(*layout, options, rank)) << "the wire is as without";
        }
      }
    }
  }
}

TEST_P(EngineOffload, HoldsTheFormulasBytesInBothMemories) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    ForEachSubGroupAndShare([&](EngineOptions options) {
      options.dtype = dtype;
      if (options.stage == 3 && options.offload_ratio == 1) {
        const bool swapped = dtype == DType::kFloat32;
        options.offload_parameters = {.target = swapped ? OffloadTarget::kHost : OffloadTarget::kFile,
                                      .folder = folder_.path()};
        options.persistence_threshold = swapped ? 0 : 20;
      }
      SCOPED_TRACE(testing::Describe(options, 3));
      RunOnRanks({.world_size = 3}, [&](comm::Communicator& communicator) {
        device::MemoryLedger& device = communicator.device().ledger();
        device::MemoryLedger& host = communicator.device().host().ledger();
        const int64_t before = device.now(Use::kCommunication);
        auto engine = Engine::Create(communicator, OddUnits(), options);
        ASSERT_TRUE(engine.ok()) << engine.status();
        const auto expect = [](const device::MemoryLedger& ledger, const MemoryBytes& bytes, int64_t communication) {
          EXPECT_EQ(ledger.now(Use::kParameters), bytes.parameters);
          EXPECT_EQ(ledger.now(Use::kGradients), bytes.gradients);
          EXPECT_EQ(ledger.now(Use::kMasterWeights), bytes.master_weights);
          EXPECT_EQ(ledger.now(Use::kMoments), bytes.moments);
          EXPECT_EQ(ledger.now(Use::kCommunication) - communication, bytes.communication);
          for (const Use use : {Use::kParameters, Use::kGradients, Use::kMasterWeights, Use::kMoments}) {
            EXPECT_EQ(ledger.predicted(use), ledger.now(use));
          }
        };
        expect(device, PredictMemory((*engine)->layout(), options, communicator.rank()), before);
        expect(host, PredictHostMemory((*engine)->layout(), options, communicator.rank()), 0);
        engine->reset();
        for (const Use use : {Use::kGradients, Use::kMasterWeights, Use::kMoments, Use::kCommunication})
          EXPECT_EQ(host.now(use), 0);
      });
    });
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
    for (int stage = 1; stage <= 3; ++stage) {
      for (const Partition partition : {Partition::kFlat, Partition::kTensor}) cases.push_back({stage, partition, target});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AllStages, EngineOffload, ::testing::ValuesIn(Cases()), [](const auto& tested) {
  return std::string(Name(tested.param.target)) + "Stage" + std::to_string(tested.param.stage) +
         std::string(Name(tested.param.partition));
});

TEST_P(EngineOffload, FrozenParametersKeepTheirWeightsAndState) {
  const auto freeze = [](int step) -> std::vector<std::pair<std::string, bool>> {
    if (step == 1) return {{"wte", true}, {"block.0.weight", true}};
    if (step == 2) return {{"wte", false}};
    return {};
  };
  for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    EngineOptions options = Options();
    options.dtype = dtype;
    options.offload_ratio = 0.4;
    ExpectReference(OddUnits(), options, {.world_size = 2}, {.steps = 4, .freeze = freeze});
    if (options.stage < 3) continue;
    options.offload_ratio = 1;
    options.offload_parameters = options.offload_optimizer;
    ExpectReference(OddUnits(), options, {.world_size = 2}, {.steps = 4, .freeze = freeze});
  }
}

// The table of the formulas in plain numbers: 25,600 elements on two ranks, bf16 with Adam, sub-groups of 5,000.
TEST(EngineOffloadMemory, IsTheFormulasTable) {
  const absl::StatusOr<Layout> layout = Layout::Create(testing::EqualUnits(4, 6400), {.world_size = 2});
  ASSERT_TRUE(layout.ok());
  EngineOptions options;
  options.stage = 2;
  options.dtype = DType::kBfloat16;
  options.offload_optimizer.target = OffloadTarget::kHost;
  options.sub_group_size = 5000;
  const int64_t own = 12800;
  const int64_t scratch = sizeof(device::StepScalars) + 8 * device::kExactSumWords;
  EXPECT_EQ(PredictMemory(*layout, options, 0).moments, 0);
  EXPECT_EQ(PredictMemory(*layout, options, 0).master_weights, 0);
  EXPECT_EQ(PredictMemory(*layout, options, 0).gradients, 0);
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).gradients, 2 * own);
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).moments, 8 * own);
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).master_weights, 4 * own);
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).communication, 2 * 5056 * 2 + 8 * own + scratch);
  EXPECT_EQ(PredictFileBytes(*layout, options, 0), 0);
  options.offload_optimizer.target = OffloadTarget::kFile;
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).moments, 0);
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).communication, 3 * 6144 * (2 + 12) + 8 * own + scratch);
  EXPECT_EQ(PredictFileBytes(*layout, options, 0), 3 * 6144 * 12);
  options.offload_ratio = 0.25;
  EXPECT_EQ(PredictMemory(*layout, options, 0).moments, 8 * own * 3 / 4);
  EXPECT_EQ(PredictFileBytes(*layout, options, 0), 4096 * 12);
  options.stage = 1;
  EXPECT_EQ(PredictMemory(*layout, options, 0).gradients, 2 * 2 * own);
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).gradients, 0);
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).communication, 1 * 4096 * (2 + 2 + 12) + scratch);
  options.dtype = DType::kFloat32;
  EXPECT_EQ(PredictFileBytes(*layout, options, 0), 4096 * 8) << "fp32 parameters are their own masters";
  options.stage = 3;
  options.dtype = DType::kBfloat16;
  options.offload_ratio = 1;
  options.offload_parameters.target = OffloadTarget::kHost;
  EXPECT_EQ(PredictMemory(*layout, options, 0).parameters, 0);
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).parameters, 2 * own);
  options.offload_parameters.target = OffloadTarget::kFile;
  EXPECT_EQ(PredictHostMemory(*layout, options, 0).parameters, 0);
  EXPECT_EQ(PredictFileBytes(*layout, options, 0), 3 * 6144 * (12 + 2));
}

TEST(EngineOffloadOptions, ThatContradictAreRefusedWithTheirValue) {
  const Folder folder;
  const auto refused = [](const EngineOptions& options, const std::string& message) {
    const absl::Status status = Validate(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status;
  };
  EngineOptions options;
  options.stage = 0;
  options.offload_optimizer.target = OffloadTarget::kHost;
  refused(options, "offload_optimizer is cpu in stage 0, which shards no optimizer state; use a stage from 1 on, or none");
  options.stage = 1;
  EXPECT_TRUE(Validate(options).ok());
  for (const double ratio : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    options.offload_ratio = ratio;
    refused(options, "offload_ratio is ");
  }
  options.offload_ratio = 1;
  options.offload_parameters.target = OffloadTarget::kHost;
  refused(options, "offload_parameters is cpu in stage 1, which shards no parameters; use a stage from 3 on, or none");
  options.stage = 3;
  EXPECT_TRUE(Validate(options).ok());
  options.offload_ratio = 0.5;
  refused(options, "offload_parameters is cpu with offload_optimizer cpu and offload_ratio 0.5");
  options.offload_ratio = 1;
  options.offload_parameters.target = OffloadTarget::kNone;
  options.sub_group_size = 0;
  refused(options, "sub_group_size is 0; it is at least 1");
  options.sub_group_size = 1;
  options.offload_optimizer.target = OffloadTarget::kFile;
  refused(options, "offload to a file needs a folder");
  options.offload_optimizer.folder = folder.path() + "/none";
  refused(options, folder.path() + "/none: No such file or directory");
  options.offload_optimizer.folder = folder.path();
  EXPECT_TRUE(Validate(options).ok());
}

// A step in which one rank has a gradient that is not finite moves nothing, and the next one goes on from there.
TEST(EngineOffloadStep, ThatIsSkippedMovesNothing) {
  const Folder folder;
  for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kFile}) {
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      const std::vector<model::UnitSpec> units = testing::EqualUnits(2, 3000);
      const testing::ToyModel model(units);
      EngineOptions options;
      options.stage = 2;
      options.dtype = DType::kBfloat16;
      options.offload_optimizer = {.target = target, .folder = folder.path()};
      options.sub_group_size = 1000;
      auto engine = Engine::Create(communicator, units, options);
      ASSERT_TRUE(engine.ok()) << engine.status();
      ASSERT_TRUE(testing::WriteInitial(**engine, units).ok());
      auto loss = communicator.device().Allocate(8, Use::kActivations, "loss");
      const std::string& name = units[0].parameters[0].name;
      std::vector<std::vector<float>> weights;
      for (int step = 0; step < 4; ++step) {
        ASSERT_TRUE(
            testing::RunMicroBatch(**engine, model, {0, 1}, {communicator.rank(), step, 0}, loss->array(DType::kFloat64))
                .ok());
        if (step == 1) {
          std::vector<float> gradient(3000, 1.0f);
          gradient[2999] = std::numeric_limits<float>::infinity();
          ASSERT_TRUE((*engine)->WriteGradient(name, gradient).ok());
        }
        ASSERT_TRUE((*engine)->Step().ok());
        auto result = (*engine)->Result();
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->skipped, step == 1);
        weights.emplace_back(3000);
        ASSERT_TRUE((*engine)->ReadParameter(name, weights.back()).ok());
      }
      EXPECT_EQ(weights[0], weights[1]);
      EXPECT_NE(weights[1], weights[2]);
      EXPECT_NE(weights[2], weights[3]);
    });
  }
}

}  // namespace
}  // namespace zeroshard::zero
