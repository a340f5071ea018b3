// bf16 and fp16: how far they are from fp32, and that their bits are as fixed as fp32's.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/late/test_devices.h"
#include "zeroshard/model/random_run.h"

namespace zeroshard::model {

struct Precision {
  const char* name;
  device::DType dtype;
  device::DType gradient_dtype;
  double loss_scale;      // what keeps gradients within the dtype
  double loss_bound;      // relative
  double gradient_bound;  // of the length of the difference, relative to the length
};
std::ostream& operator<<(std::ostream& out, const Precision& p) { return out << p.name; }

namespace {

using device::DType;
using device::WriteMode;
using Gradients = std::map<std::string, std::vector<float>>;

GptOptions Options(DType dtype, DType gradient_dtype) {
  return {.layers = 3,
          .heads = 2,
          .width = 32,
          .context = 70,
          .vocab = 600,
          .batch = 8,
          .dtype = dtype,
          .gradient_dtype = gradient_dtype};
}

Gradients ReadGradients(SingleRank& rank) {
  Gradients gradients;
  for (const ParameterSpec& parameter : rank.stored()) gradients[parameter.name] = rank.ReadGradient(parameter.name);
  return gradients;
}

// A device's loss scale.
class Scale {
 public:
  Scale(SingleRank& rank, double value)
      : stream_(rank.stream()), memory_(*rank.stream().device().Allocate(sizeof(float), device::Use::kData, "loss scale")) {
    rank.stream().device().elementwise().Fill(rank.stream(), array(), value);
  }
  ~Scale() { stream_.Synchronize(); }
  device::Array array() const { return memory_.array(DType::kFloat32); }

 private:
  device::Stream& stream_;
  device::Buffer memory_;
};

struct Outcome {
  double loss;
  Gradients gradients;
  bool operator==(const Outcome&) const = default;
};

Outcome RunOn(device::Device& device, const GptOptions& options, double loss_scale) {
  RandomRun run(device, options, /*rows=*/7);
  const Scale scale(run.rank(), loss_scale);
  MicroBatch micro_batch = run.micro_batch();
  micro_batch.loss_scale = scale.array();
  EXPECT_TRUE(run.rank().Run(micro_batch, WriteMode::kOverwrite).ok());
  EXPECT_TRUE(run.rank().Run(micro_batch, WriteMode::kAccumulate).ok());
  return {run.rank().LossSum(), ReadGradients(run.rank())};
}

class GptPrecisionTest : public testing::TestWithParam<Precision> {
 protected:
  GptOptions options() const { return Options(GetParam().dtype, GetParam().gradient_dtype); }
};

TEST_P(GptPrecisionTest, LossAndGradients_AreThoseOfFp32WithinABound) {
  const auto device = device::MakeTestDevice(), another = device::MakeTestDevice();
  RandomRun narrow(*device, options(), /*rows=*/8), wide(*another, Options(DType::kFloat32, DType::kFloat32), /*rows=*/8);
  for (const ParameterSpec& parameter : narrow.rank().stored()) {
    wide.rank().Write(parameter.name, narrow.rank().ReadParameter(parameter.name));
  }
  const Scale scale(narrow.rank(), GetParam().loss_scale);
  MicroBatch micro_batch = narrow.micro_batch();
  micro_batch.loss_scale = scale.array();
  ASSERT_TRUE(narrow.rank().Run(micro_batch, WriteMode::kOverwrite).ok());
  ASSERT_TRUE(wide.rank().Run(wide.micro_batch(), WriteMode::kOverwrite).ok());
  EXPECT_NEAR(narrow.rank().LossSum() / wide.rank().LossSum(), 1, GetParam().loss_bound);
  const Gradients got = ReadGradients(narrow.rank());
  for (const auto& [name, want] : ReadGradients(wide.rank())) {
    double difference = 0, length = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      difference += std::pow(got.at(name)[i] / GetParam().loss_scale - want[i], 2);
      length += std::pow(want[i], 2);
    }
    EXPECT_LT(std::sqrt(difference / length), GetParam().gradient_bound) << name;
  }
}

TEST_P(GptPrecisionTest, BitsAreTheSameRunToRunAndOnALateDevice) {
  const auto device = device::MakeTestDevice();
  const Outcome want = RunOn(*device, options(), GetParam().loss_scale);
  EXPECT_EQ(RunOn(*device, options(), GetParam().loss_scale), want);
  for (const device::LateOrder order : {device::LateOrder::kLazy, device::LateOrder::kRandom}) {
    EXPECT_EQ(RunOn(*device::MakeOrderedDevice({.order = order}), options(), GetParam().loss_scale), want);
  }
}

TEST_P(GptPrecisionTest, ActivationCheckpoints_ChangeNoBit) {
  const auto device = device::MakeTestDevice();
  const Outcome want = RunOn(*device, options(), GetParam().loss_scale);
  for (const int64_t every : {1, 2}) {
    GptOptions checkpointed = options();
    checkpointed.checkpoint_every = every;
    checkpointed.checkpoints_on_host = every == 2;
    EXPECT_EQ(RunOn(*device, checkpointed, GetParam().loss_scale), want) << every;
  }
}

// Losses of steps of plain descent on fp32 masters.
std::vector<double> Descend(const GptOptions& options, double loss_scale) {
  constexpr double kRate = 0.2;
  const auto device = device::MakeTestDevice();
  RandomRun run(*device, options, /*rows=*/8);
  SingleRank& rank = run.rank();
  rank.InitializeParameters(/*seed=*/3);
  // A few tokens of the vocabulary: soon learned.
  for (int32_t& token : run.inputs()) token %= 16;
  for (int32_t& token : run.targets()) token %= 16;
  std::map<std::string, std::vector<float>> masters;
  for (const ParameterSpec& parameter : rank.stored()) masters[parameter.name] = rank.ReadParameter(parameter.name);
  const Scale scale(rank, loss_scale);
  std::vector<double> losses;
  for (int step = 0; step < 20; ++step) {
    MicroBatch micro_batch = run.micro_batch();
    micro_batch.gradient_scale = 1.0 / static_cast<double>(run.targets().size());
    micro_batch.loss_scale = scale.array();
    EXPECT_TRUE(rank.Run(micro_batch, WriteMode::kOverwrite).ok());
    losses.push_back(rank.LossSum() * micro_batch.gradient_scale);
    for (auto& [name, master] : masters) {
      const std::vector<float> gradient = rank.ReadGradient(name);
      for (size_t i = 0; i < master.size(); ++i) master[i] -= static_cast<float>(kRate / loss_scale * gradient[i]);
      rank.Write(name, master);
    }
  }
  return losses;
}

TEST_P(GptPrecisionTest, LossesOfTraining_FollowFp32WithinOnePercent) {
  if (device::MakeTestDevice()->name() == "cuda") GTEST_SKIP() << "a minute on doubles, to show of one step twenty times";
  const std::vector<double> want = Descend(Options(DType::kFloat32, DType::kFloat32), 1);
  const std::vector<double> got = Descend(options(), GetParam().loss_scale);
  EXPECT_LT(want.back(), 0.8 * want.front());
  for (size_t step = 0; step < want.size(); ++step) EXPECT_NEAR(got[step] / want[step], 1, 0.01) << step;
}

TEST_P(GptPrecisionTest, MemoryIsPredictedAndAllocatedAtStart) {
  const auto device = device::MakeTestDevice();
  RandomRun run(*device, options(), /*rows=*/8);
  const auto activations = device::Use::kActivations;
  EXPECT_EQ(device->ledger().now(activations), device->ledger().predicted(activations));
  const int64_t charges = device->ledger().charges();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run.rank().Run(run.micro_batch(), WriteMode::kOverwrite).ok());
  EXPECT_EQ(device->ledger().charges(), charges);
}

INSTANTIATE_TEST_SUITE_P(DTypes, GptPrecisionTest,
                         testing::Values(Precision{"Bf16", DType::kBfloat16, DType::kFloat32, 1, 1e-2, 6e-2},
                                         Precision{"Bf16Gradients", DType::kBfloat16, DType::kBfloat16, 1, 1e-2, 6e-2},
                                         Precision{"Fp16", DType::kFloat16, DType::kFloat32, 1024, 2e-3, 1e-2},
                                         Precision{"Fp16Gradients", DType::kFloat16, DType::kFloat16, 16, 2e-3, 1e-2}),
                         [](const auto& precision) { return std::string(precision.param.name); });

TEST(GptLossScaleTest, ScalesEveryGradientAndNotTheLoss) {
  const auto device = device::MakeTestDevice();
  const GptOptions options = Options(DType::kFloat32, DType::kFloat32);
  const Outcome plain = RunOn(*device, options, 1), scaled = RunOn(*device, options, 4096);
  EXPECT_EQ(scaled.loss, plain.loss);
  for (const auto& [name, gradient] : plain.gradients) {
    for (size_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(scaled.gradients.at(name)[i], 4096 * gradient[i]) << name;
  }
}

TEST(GptLossScaleTest, OfAnotherTypeOrSize_IsRefused) {
  const auto device = device::MakeTestDevice();
  RandomRun run(*device, Options(DType::kFloat32, DType::kFloat32), /*rows=*/1);
  const Scale scale(run.rank(), 1);
  MicroBatch micro_batch = run.micro_batch();
  micro_batch.loss_scale = scale.array().As(DType::kBfloat16);
  const absl::Status status = run.rank().Run(micro_batch, WriteMode::kOverwrite);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "a loss scale is fp32 [1], not 2 of bf16");
}

}  // namespace
}  // namespace zeroshard::model
