#include "zeroshard/device/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

double ValueOf(Bfloat16 x) { return ToFloat(x); }
double ValueOf(Float16 x) {
  const int exponent = (x.bits >> 10) & 31, mantissa = x.bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return x.bits & 0x8000 ? -magnitude : magnitude;
}

template <class T>
struct Format;
template <>
struct Format<Bfloat16> {
  static constexpr uint16_t kInf = 0x7f80, kQuiet = 0x40;
};
template <>
struct Format<Float16> {
  static constexpr uint16_t kInf = 0x7c00, kQuiet = 0x200;
};

template <class T>
class ConvertTest : public testing::Test {};
using TwoByteFloats = testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(ConvertTest, TwoByteFloats);

TYPED_TEST(ConvertTest, AllValuesComeBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam x{static_cast<uint16_t>(bits)};
    const float wide = ToFloat(x);
    const bool nan = (bits & 0x7fff) > Format<TypeParam>::kInf;
    ASSERT_EQ(std::isnan(wide), nan) << bits;
    const uint32_t quiet = nan ? Format<TypeParam>::kQuiet : 0;
    ASSERT_EQ(Narrow<TypeParam>(wide).bits, bits | quiet);
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0);
  }
}

TYPED_TEST(ConvertTest, AllFiniteValuesAreWhatTheFormatSays) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam x{static_cast<uint16_t>(bits)};
    if ((bits & 0x7fff) >= Format<TypeParam>::kInf) continue;
    ASSERT_EQ(static_cast<double>(ToFloat(x)), ValueOf(x)) << bits;
  }
}

// Between each two neighbours: below the middle goes down, above goes up, the middle goes to the even one; for fp64 too, whose
// values next to a middle are no fp32.
TYPED_TEST(ConvertTest, AllMiddlesRoundToEven) {
  for (uint32_t bits = 0; bits + 1 < Format<TypeParam>::kInf; ++bits) {
    const TypeParam low{static_cast<uint16_t>(bits)}, high{static_cast<uint16_t>(bits + 1)};
    const double middle = (ValueOf(low) + ValueOf(high)) / 2;
    const uint16_t even = bits & 1 ? high.bits : low.bits;
    for (const double sign : {1.0, -1.0}) {
      const uint16_t minus = sign < 0 ? 0x8000 : 0;
      const double below = std::nextafter(middle, 0.0), above = std::nextafter(middle, HUGE_VAL);
      ASSERT_EQ(Narrow<TypeParam>(sign * middle).bits, even | minus) << bits;
      ASSERT_EQ(Narrow<TypeParam>(sign * below).bits, low.bits | minus) << bits;
      ASSERT_EQ(Narrow<TypeParam>(sign * above).bits, high.bits | minus) << bits;
      const float tie = static_cast<float>(sign * middle);
      if (tie != sign * middle) continue;
      ASSERT_EQ(Narrow<TypeParam>(tie).bits, even | minus) << bits;
      ASSERT_EQ(Narrow<TypeParam>(std::nextafter(tie, 0.0f)).bits, low.bits | minus) << bits;
      ASSERT_EQ(Narrow<TypeParam>(std::nextafter(tie, sign * HUGE_VALF)).bits, high.bits | minus) << bits;
    }
  }
}

TYPED_TEST(ConvertTest, WhatIsTooLargeIsInfinite) {
  const uint16_t inf = Format<TypeParam>::kInf;
  const double largest = ValueOf(TypeParam{static_cast<uint16_t>(inf - 1)});
  const double step = largest - ValueOf(TypeParam{static_cast<uint16_t>(inf - 2)});
  EXPECT_EQ(Narrow<TypeParam>(largest).bits, inf - 1);
  EXPECT_EQ(Narrow<TypeParam>(std::nextafter(largest + step / 2, 0.0)).bits, inf - 1);
  EXPECT_EQ(Narrow<TypeParam>(largest + step / 2).bits, inf);
  EXPECT_EQ(Narrow<TypeParam>(-std::numeric_limits<float>::infinity()).bits, 0x8000 | inf);
  EXPECT_EQ(Narrow<TypeParam>(std::numeric_limits<double>::max()).bits, inf);
  EXPECT_EQ(ToFloat(TypeParam{inf}), std::numeric_limits<float>::infinity());
}

TYPED_TEST(ConvertTest, ANanStaysOneWithItsSign) {
  for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc12345u}) {
    const TypeParam narrow = Narrow<TypeParam>(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(ToFloat(narrow))) << std::hex << bits;
    EXPECT_EQ(narrow.bits & 0x8000, (bits >> 16) & 0x8000);
  }
}

TEST(ConvertFromDouble, RoundsOnceNotTwice) {
  // 1 + 2^-8 is the middle of two bf16; what is above it by less than half of fp32's last place must go up.
  EXPECT_EQ(ToFloat(ToBfloat16(1.0 + 0x1p-8 + 0x1p-40)), 1.0f + 0x1p-7f);
  EXPECT_EQ(ToFloat(ToBfloat16(static_cast<float>(1.0 + 0x1p-8 + 0x1p-40))), 1.0f);
  EXPECT_EQ(ToFloat(ToFloat16(1.0 + 0x1p-11 + 0x1p-40)), 1.0f + 0x1p-10f);
}

}  // namespace
}  // namespace zeroshard::device
