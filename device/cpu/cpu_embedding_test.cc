#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/late/test_devices.h"

namespace zeroshard::device {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

std::unique_ptr<Device> MakeDevice(bool late) { return late ? MakeOrderedDevice({}) : MakeTestDevice(); }

// Repeated tokens in two bytes: the sum is rounded once, though each addend alone would be lost.
TEST(EmbeddingTest, TwoByteGradients_AreSummedInFp32AndRoundedOnce) {
  for (const bool late : {false, true}) {
    const auto device = MakeDevice(late);
    TestArrays arrays(*device);
    constexpr int64_t kRows = 70, kWidth = 67;
    std::vector<int32_t> ids;
    for (int64_t row = 0; row < kRows; ++row) ids.push_back(row % 3 == 0 ? 2 : 0);
    const Floats d = RandomFloats(kRows * kWidth, 1, 0x1p-6f), before = RandomFloats(3 * kWidth, 2, 4);
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
      Doubles want;
      for (const float value : Rounded(before, dtype)) want.push_back(value);
      Doubles places(static_cast<size_t>(2 * kWidth));
      for (int64_t i = 0; i < kRows * kWidth; ++i) {
        want[ids[i / kWidth] * kWidth + i % kWidth] += d[i];
        places[i % (2 * kWidth)] += d[i];
      }
      const Array d_table = arrays.Make(before, dtype), d_places = arrays.Empty(2 * kWidth, dtype);
      arrays.kernels().EmbedTokensBackward(arrays.stream(), arrays.Make(ids), arrays.Make(d), d_table,
                                           WriteMode::kAccumulate);
      arrays.kernels().EmbedPositionsBackward(arrays.stream(), arrays.Make(d), d_places, WriteMode::kOverwrite);
      ExpectNear(arrays.ReadWide(d_table), want, HalfUlp(dtype) + 1e-6);
      ExpectNear(arrays.ReadWide(d_places), places, HalfUlp(dtype) + 1e-6);
      const Array x = arrays.Empty(kRows * kWidth);
      arrays.kernels().Embed(arrays.stream(), arrays.Make(ids), d_table, d_places, x);
      const Floats table = arrays.ReadWide(d_table), place = arrays.ReadWide(d_places), got = arrays.Read(x);
      for (int64_t i = 0; i < kRows * kWidth; ++i) {
        ASSERT_EQ(got[i], table[ids[i / kWidth] * kWidth + i % kWidth] + place[i % (2 * kWidth)]);
      }
    }
  }
}

TEST(EmbeddingTest, ForwardAndBackward_AddUpRepeatedTokens) {
  const auto device = MakeTestDevice();
  TestArrays arrays(*device);
  const std::vector<int32_t> ids = {2, 0, 2, 1, 2, 2};  // two rows of three positions
  const Floats table = {1, 2, 3, 4, 5, 6, 7, 8}, places = {10, 20, 30, 40, 50, 60};
  const Array tokens = arrays.Make(ids), x = arrays.Empty(12), d_table = arrays.Empty(8), d_places = arrays.Empty(6);
  arrays.kernels().Embed(arrays.stream(), tokens, arrays.Make(table), arrays.Make(places), x);
  EXPECT_EQ(arrays.Read(x), (Floats{15, 26, 31, 42, 55, 66, 13, 24, 35, 46, 55, 66}));
  const Array d = arrays.Make(Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  arrays.kernels().EmbedTokensBackward(arrays.stream(), tokens, d, d_table, WriteMode::kOverwrite);
  EXPECT_EQ(arrays.Read(d_table), (Floats{3, 4, 7, 8, 26, 30, 0, 0}));
  arrays.kernels().EmbedTokensBackward(arrays.stream(), tokens, d, d_table, WriteMode::kAccumulate);
  EXPECT_EQ(arrays.Read(d_table), (Floats{6, 8, 14, 16, 52, 60, 0, 0}));
  arrays.kernels().EmbedPositionsBackward(arrays.stream(), d, d_places, WriteMode::kOverwrite);
  EXPECT_EQ(arrays.Read(d_places), (Floats{8, 10, 12, 14, 16, 18}));
  arrays.kernels().EmbedPositionsBackward(arrays.stream(), d, d_places, WriteMode::kAccumulate);
  EXPECT_EQ(arrays.Read(d_places), (Floats{16, 20, 24, 28, 32, 36}));
}

}  // namespace
}  // namespace zeroshard::device
