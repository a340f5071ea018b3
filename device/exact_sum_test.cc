#include "zeroshard/device/exact_sum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

using Words = std::array<int64_t, kExactSumWords>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
constexpr double kLargest = std::numeric_limits<double>::max();

Words SumOf(const std::vector<double>& values) {
  Words words = {};
  for (double v : values) exact_sum::Add(words.data(), v);
  exact_sum::Normalize(words.data());
  return words;
}
double ValueOf(const std::vector<double>& values) { return exact_sum::Value(SumOf(values).data()); }

TEST(ExactSumTest, OneValueComesBack) {
  for (double v : {0.0, 1.0, 0.1, 1e300, 1e-300, kSmallest, 3 * kSmallest, std::numeric_limits<double>::min(), kLargest,
                   0x1.fffffffffffffp-1, 0x1p-32, 0x1p32, 0x1.5p64}) {
    EXPECT_EQ(ValueOf({v}), v);
  }
}

TEST(ExactSumTest, NothingIsLostBetweenTheEndsOfTheRange) {
  std::vector<double> values(100, 1e-300);
  values.push_back(kLargest / 4);
  Words words = SumOf(values);
  // Take the large one out again: what is left is the sum of the small ones.
  Words large = SumOf({kLargest / 4});
  for (int i = 0; i < kExactSumWords; ++i) words[static_cast<size_t>(i)] -= large[static_cast<size_t>(i)];
  EXPECT_DOUBLE_EQ(exact_sum::Value(words.data()), 1e-298);
}

TEST(ExactSumTest, RoundsOnceToNearestAndTiesToEven) {
  const double two53 = 0x1p53;
  EXPECT_EQ(ValueOf({two53, 1}), two53);                 // a tie, to even
  EXPECT_EQ(ValueOf({two53, 1, kSmallest}), two53 + 2);  // anything beyond the tie decides
  EXPECT_EQ(ValueOf({two53, 2, 1}), two53 + 4);          // a tie, to even, upwards
  EXPECT_EQ(ValueOf({two53, 0.5, 0.25, 0.125}), two53);
  EXPECT_EQ(ValueOf({kSmallest, kSmallest, kSmallest}), 3 * kSmallest);
}

TEST(ExactSumTest, BeyondTheRangeIsInfinity) { EXPECT_EQ(ValueOf({kLargest, kLargest}), kInf); }

TEST(ExactSumTest, CountsWhatIsNotFiniteAndAddsTheRest) {
  const Words words = SumOf({1, kInf, 2, kNan, -kInf});
  EXPECT_EQ(exact_sum::NonFinite(words.data()), 3);
  EXPECT_EQ(exact_sum::Value(words.data()), 3);
}

TEST(ExactSumTest, AgreesWithWiderArithmetic) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(-20, 20);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values;
    __float128 wide = 0;  // 113 bits hold a thousand values of 53 bits over 40 binades
    for (int i = 0; i < 1000; ++i) {
      values.push_back(std::ldexp(mantissa(random), exponent(random)));
      wide += values.back();
    }
    EXPECT_EQ(ValueOf(values), static_cast<double>(wide));
  }
}

TEST(ExactSumTest, WordsAreTheSameForEveryOrderAndEverySplit) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-900, 900);
  std::vector<double> values;
  for (int i = 0; i < 500; ++i) values.push_back(std::exp2(exponent(random)));
  const Words whole = SumOf(values);
  for (int round = 0; round < 50; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    const auto cut = values.begin() + static_cast<std::ptrdiff_t>(random() % 500);
    Words sum = SumOf({values.begin(), cut});
    const Words rest = SumOf({cut, values.end()});
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
    exact_sum::Normalize(sum.data());
    EXPECT_EQ(sum, whole);
  }
}

TEST(ExactSumTest, AMillionRanksFitIntoTheWords) {
  const double largest_fp32_squares = 64 * 0x1.fffffep127 * 0x1.fffffep127;
  Words words = SumOf({largest_fp32_squares, 0x1.fffffffffffffp31, 0x1.fffffffffffffp63});
  const double one = exact_sum::Value(words.data());
  for (int64_t& w : words) w *= int64_t{1} << 20;
  for (int64_t w : words) EXPECT_LE(w, int64_t{1} << 52);
  EXPECT_EQ(exact_sum::Value(words.data()), one * 0x1p20);
}

}  // namespace
}  // namespace zeroshard::device
