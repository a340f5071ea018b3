#include "zeroshard/trainer/bits_hash.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

std::string Hash(double loss, const std::vector<float>& weights) {
  BitsHash bits;
  bits.AddLoss(loss);
  bits.AddWeights(weights);
  return bits.Hex();
}

TEST(BitsHash, SeesTheLastBitOfALossAndOfAWeight) {
  const std::string bits = Hash(1.5, {1, 2, 3});
  EXPECT_EQ(bits.size(), 16u);
  EXPECT_EQ(bits, Hash(1.5, {1, 2, 3}));
  EXPECT_NE(bits, Hash(1.5 + std::numeric_limits<double>::epsilon(), {1, 2, 3}));
  EXPECT_NE(bits, Hash(1.5, {1, 2, 3 + 2 * std::numeric_limits<float>::epsilon()}));
  EXPECT_NE(Hash(1.5, {0.0f}), Hash(1.5, {-0.0f}));
}

TEST(BitsHash, SeesOrderAndWhereParametersEnd) {
  EXPECT_NE(Hash(1.5, {1, 2, 3}), Hash(1.5, {2, 1, 3}));
  BitsHash apart;
  apart.AddLoss(1.5);
  apart.AddWeights(std::vector<float>{1});
  apart.AddWeights(std::vector<float>{2, 3});
  EXPECT_NE(apart.Hex(), Hash(1.5, {1, 2, 3}));
}

TEST(BitsHash, GoesOnFromItsState) {
  BitsHash whole, first;
  first.AddLoss(1.5);
  BitsHash second(first.state());
  second.AddLoss(2.5);
  whole.AddLoss(1.5);
  whole.AddLoss(2.5);
  EXPECT_EQ(second.Hex(), whole.Hex());
}

}  // namespace
}  // namespace zeroshard::trainer
