#include "zeroshard/trainer/flops.h"

#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

// GPT-2's smallest, as Hugging Face counts it.
TEST(ModelFlops, AreSixForEachParameterButPositionsAndTwelveForEachScore) {
  const model::GptOptions gpt2{.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocab = 50257};
  constexpr double kParameters = 124'439'808, kPositions = 1024 * 768;
  EXPECT_EQ(ModelFlopsPerToken(gpt2, 124'439'808), 6 * (kParameters - kPositions) + 12.0 * 12 * 1024 * 768);
}

}  // namespace
}  // namespace zeroshard::trainer
