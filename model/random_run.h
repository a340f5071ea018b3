// A small model with random weights and random tokens, for tests: far from its initialisation, so that every gradient is large.
//
// Example:
//   RandomRun run(*device, options, /*rows=*/2);
//   ASSERT_TRUE(run.rank().Run(run.micro_batch(), device::WriteMode::kOverwrite).ok());
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/single_rank.h"

namespace zeroshard::model {

class RandomRun {
 public:
  RandomRun(device::Device& device, const GptOptions& options, int64_t rows, uint32_t seed = 1) : rows_(rows) {
    auto rank = SingleRank::Create(device, options);
    EXPECT_TRUE(rank.ok()) << rank.status();
    rank_ = *std::move(rank);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 0.3f);
    for (const ParameterSpec& parameter : rank_->stored()) {
      std::vector<float> values(Elements(parameter));
      const bool norm_weight = parameter.shape.size() == 1 && parameter.name.ends_with(".weight");
      for (float& value : values) value = normal(random) + (norm_weight ? 1.0f : 0.0f);
      rank_->Write(parameter.name, values);
    }
    NewTokens(seed + 1);
  }

  void NewTokens(uint32_t seed) {
    const GptOptions& options = rank_->gpt().options();
    std::mt19937 random(seed);
    std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(options.vocab) - 1);
    inputs_.resize(rows_ * options.context);
    targets_.resize(rows_ * options.context);
    for (int32_t& t : inputs_) t = token(random);
    for (int32_t& t : targets_) t = token(random);
  }

  SingleRank& rank() { return *rank_; }
  std::vector<int32_t>& inputs() { return inputs_; }
  std::vector<int32_t>& targets() { return targets_; }
  int64_t rows() const { return rows_; }
  MicroBatch micro_batch() const {
    return {.inputs = inputs_, .targets = targets_, .rows = rows_, .gradient_scale = kScale};
  }

  static constexpr double kScale = 0.25;

 private:
  const int64_t rows_;
  std::unique_ptr<SingleRank> rank_;
  std::vector<int32_t> inputs_, targets_;
};

}  // namespace zeroshard::model
