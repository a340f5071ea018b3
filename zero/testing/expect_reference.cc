#include "zeroshard/zero/testing/expect_reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "zeroshard/zero/precision.h"

namespace zeroshard::zero::testing {
namespace {

template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

bool SameBits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

std::vector<float> Scaled(std::vector<float> values, double scale) {
  for (float& value : values) value = static_cast<float>(value * scale);
  return values;
}

void ExpectSameTensors(const TrainingRun& run, const Reference& reference, double scale) {
  for (const auto& [name, values] : run.weights)
    EXPECT_TRUE(SameBits(values, reference.weights(name))) << "weights of " << name;
  for (const auto& [name, values] : run.gradients) {
    EXPECT_TRUE(SameBits(values, Scaled(reference.gradient(name), scale))) << "gradient of " << name;
  }
  for (int i = 0; i < 2; ++i) {
    for (const auto& [name, values] : run.moments[i]) {
      EXPECT_TRUE(SameBits(values, reference.moment(i, name))) << "moment " << i << " of " << name;
    }
  }
}

}  // namespace

std::string Describe(const EngineOptions& options, int world_size) {
  std::ostringstream out;
  out << "world " << world_size << ", stage " << options.stage << ", " << Name(options.partition) << ", "
      << Name(options.owner) << ", bucket " << options.reduce_bucket_size << ", reduce_scatter " << options.reduce_scatter
      << ", round_robin " << options.round_robin_gradients << ", overlap " << options.overlap << ", prefetch "
      << options.prefetch << ", keep " << options.keep_parameters << ", accumulation " << options.accumulation << ", clip "
      << options.clip << ", " << Name(options.optimizer.kind) << ", " << device::Name(options.dtype) << ", gradients "
      << device::Name(PrecisionOf(options, world_size).gradients) << ", on the wire "
      << device::Name(PrecisionOf(options, world_size).wire) << ", prefetch_bucket " << options.prefetch_bucket_size
      << ", persistence " << options.persistence_threshold << ", max_live " << options.max_live_parameters << ", reuse "
      << options.max_reuse_distance;
  return out.str();
}

std::vector<TrainingRun> ExpectReference(const std::vector<model::UnitSpec>& units, const EngineOptions& options,
                                         const RankOptions& ranks, const TrainingOptions& training) {
  SCOPED_TRACE(Describe(options, ranks.world_size));
  std::vector<TrainingRun> runs(ranks.world_size);
  RunOnRanks(ranks, [&](comm::Communicator& communicator) {
    absl::StatusOr<TrainingRun> run = Train(communicator, units, options, training);
    EXPECT_TRUE(run.ok()) << "rank " << communicator.rank() << ": " << run.status();
    if (run.ok()) {
      runs[communicator.rank()] = *std::move(run);
    } else {
      communicator.Abort(run.status());
    }
  });
  if (::testing::Test::HasFailure()) return runs;
  Reference reference(units, options, ranks.world_size);
  for (int step = 0; step < training.steps; ++step) {
    if (training.freeze) {
      for (const auto& [name, frozen] : training.freeze(step)) reference.SetFrozen(name, frozen);
    }
    const device::StepScalars scalars =
        reference.Step(training.schedule ? training.schedule(step) : EveryUnit(units, options.accumulation));
    for (int r = 0; r < ranks.world_size; ++r) {
      const StepResult& result = runs[r].results[step];
      EXPECT_TRUE(SameBits(runs[r].losses[step], reference.losses()[r])) << "loss of step " << step << ", rank " << r;
      EXPECT_TRUE(SameBits(result.gradient_norm, scalars.norm))
          << result.gradient_norm << " for " << scalars.norm << ", step " << step;
      EXPECT_TRUE(SameBits(result.clip_factor, scalars.clip_factor));
      EXPECT_TRUE(SameBits(result.learning_rate, scalars.learning_rate));
      EXPECT_EQ(result.loss_scale, scalars.loss_scale);
      EXPECT_EQ(result.skipped, scalars.skip != 0);
    }
  }
  const double loss_scale = runs[0].results.empty() ? 1 : runs[0].results.back().loss_scale;
  for (int r = 0; r < ranks.world_size; ++r) {
    SCOPED_TRACE("rank " + std::to_string(r));
    ExpectSameTensors(runs[r], reference, GradientScale(options, ranks.world_size) / loss_scale);
  }
  return runs;
}

}  // namespace zeroshard::zero::testing
