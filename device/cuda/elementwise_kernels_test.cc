#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "zeroshard/device/cuda/kernel_pair.h"

namespace zeroshard::device::cuda {
namespace {

using ElementwiseKernels = KernelTest;

constexpr int64_t kSizes[] = {0, 1, 3, 63, 64, 65, 1027};

// Random values, and in front those that rounding is hard for: ties, subnormals, overflow, infinities, a NaN.
std::vector<float> Values(int64_t n, uint32_t seed) {
  std::vector<float> values = RandomFloats(n, seed, 100);
  const float inf = std::numeric_limits<float>::infinity();
  const float hard[] = {-std::nanf("5"), inf,       -inf,    65519.9f,    65520,       0x1p-24f, 0x1.8p-25f,
                        -0x1p-25f,       0x1p-149f, 3.4e38f, 1 + 0x1p-8f, 1 + 0x3p-8f, -0.0f};
  for (size_t i = 0; i < std::min(values.size(), std::size(hard)); ++i) values[values.size() - 1 - i] = hard[i];
  return values;
}

TEST_P(ElementwiseKernels, FillHasTheBitsOfTheCpu) {
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kBfloat16, DType::kFloat16, DType::kInt32, DType::kInt64, DType::kUint8}) {
    for (const int64_t n : kSizes) {
      KernelPair pair;
      const Both y = pair.Make(n, dtype), shifted = pair.Make(n, dtype, /*shift=*/1);
      pair.Run([&](const Side& s) {
        s.elementwise.Fill(s.stream, s(y), 17.123456789);
        s.elementwise.Fill(s.stream, s(shifted), 3);
      });
      pair.ExpectSame(y);
      pair.ExpectSame(shifted);
    }
  }
}

TEST_P(ElementwiseKernels, CopyTakesAnyBytes) {
  for (const int64_t n : kSizes) {
    for (const int64_t shift : {0, 1, 4}) {
      KernelPair pair;
      const Both x = pair.Make(Values(n, 3), DType::kBfloat16), y = pair.Make(n, DType::kBfloat16, shift);
      pair.Run([&](const Side& s) { s.elementwise.Copy(s.stream, s(x), s(y)); });
      pair.ExpectSame(y);
    }
  }
}

TEST_P(ElementwiseKernels, ConvertAndAccumulateHaveTheBitsOfTheCpu) {
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      for (const int64_t n : kSizes) {
        SCOPED_TRACE(testing::Message() << Name(from).data() << " to " << Name(to).data() << ", " << n);
        KernelPair pair;
        const Both x = pair.Make(Values(n, 1), from), y = pair.Make(n, to), sum = pair.Make(RandomFloats(n, 2, 80), to);
        pair.Run([&](const Side& s) {
          s.elementwise.Convert(s.stream, s(x), s(y));
          s.elementwise.Accumulate(s.stream, s(x), s(sum));
        });
        pair.ExpectSame(y);
        pair.ExpectSame(sum);
      }
    }
  }
}

// Each fp16 number, and what lies about it, and halfway to the next, in fp32.
TEST_P(ElementwiseKernels, EveryFp16NumberConvertsAsOnTheCpu) {
  std::vector<Float16> narrow;
  std::vector<float> wide;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    narrow.push_back({static_cast<uint16_t>(bits)});
    const float here = ToFloat(narrow.back());
    const float middle = (here + ToFloat(Float16{static_cast<uint16_t>(bits + 1)})) / 2;
    for (const float x : {here, middle}) {
      for (const uint32_t beside : {~0u, 0u, 1u}) wide.push_back(std::bit_cast<float>(std::bit_cast<uint32_t>(x) + beside));
    }
  }
  KernelPair pair;
  const Both x = pair.MakeOf(narrow, DType::kFloat16), widened = pair.Make(x.cpu.elements(), DType::kFloat32);
  const Both y = pair.MakeOf(wide), narrowed = pair.Make(y.cpu.elements(), DType::kFloat16);
  pair.Run([&](const Side& s) {
    s.elementwise.Convert(s.stream, s(x), s(widened));
    s.elementwise.Convert(s.stream, s(y), s(narrowed));
  });
  pair.ExpectSame(widened);
  pair.ExpectSame(narrowed);
}

TEST_P(ElementwiseKernels, UnalignedArraysGiveTheSameBits) {
  for (const int64_t shift : {1, 2, 3}) {
    KernelPair pair;
    const Both x = pair.Make(Values(131, 4), DType::kFloat32, shift), y = pair.Make(131, DType::kFloat16);
    pair.Run([&](const Side& s) {
      s.elementwise.Convert(s.stream, s(x), s(y));
      s.elementwise.Scale(s.stream, s(x), 1.7);
    });
    pair.ExpectSame(y);
    pair.ExpectSame(x);
  }
}

TEST_P(ElementwiseKernels, ConvertMayStayInItsPlace) {
  KernelPair pair;
  const Both x = pair.Make(Values(1027, 5), DType::kBfloat16);
  const Both y{x.cpu.As(DType::kFloat16), x.cuda.As(DType::kFloat16)};
  pair.Run([&](const Side& s) { s.elementwise.Convert(s.stream, s(x), s(y)); });
  pair.ExpectSame(y);
}

TEST_P(ElementwiseKernels, ScaleHasTheBitsOfTheCpu) {
  for (const DType dtype : kFloats) {
    for (const int64_t n : kSizes) {
      KernelPair pair;
      const Both y = pair.Make(Values(n, 6), dtype);
      pair.Run([&](const Side& s) { s.elementwise.Scale(s.stream, s(y), 0.3333333333); });
      pair.ExpectSame(y);
    }
  }
}

TEST_P(ElementwiseKernels, LoopOverMoreThanTheGrid) {
  constexpr int64_t kMany = 4 * 256 * 1056 + 5;
  KernelPair pair;
  const Both x = pair.Make(RandomFloats(kMany, 7), DType::kFloat32), y = pair.Make(kMany, DType::kBfloat16);
  pair.Run([&](const Side& s) { s.elementwise.Convert(s.stream, s(x), s(y)); });
  pair.ExpectSame(y);
}

INSTANTIATE_TEST_SUITE_P(Orders, ElementwiseKernels, testing::Range(0, KernelOrders()));

}  // namespace
}  // namespace zeroshard::device::cuda
