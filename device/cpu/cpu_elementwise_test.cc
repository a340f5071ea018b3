#include "zeroshard/device/cpu/cpu_elementwise.h"

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cpu/each_target.h"
#include "zeroshard/device/cpu/elementwise_kernels.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device {
namespace {

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kBfloat16, DType::kFloat16};

// Random bits: every exponent, subnormals, infinities; NaNs only where asked, since which of two survives a sum is nobody's
// promise.
template <class T>
std::vector<T> RandomBits(int64_t count, uint32_t seed, bool nans) {
  std::mt19937_64 random(seed);
  std::vector<T> out(static_cast<size_t>(count));
  for (T& x : out) {
    do {
      const uint64_t bits = random();
      std::memcpy(&x, &bits, sizeof(T));
    } while (!nans && Widen(x) != Widen(x));
  }
  return out;
}

bool SameBytes(const void* a, const void* b, size_t bytes) { return bytes == 0 || std::memcmp(a, b, bytes) == 0; }
template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return SameBytes(a.data(), b.data(), a.size() * sizeof(T));
}

TEST(ElementwiseTargets, ThisBinaryHasMoreThanOne) {
  std::set<std::string> names;
  ForEachTarget([&](const char* name) { names.insert(name); });
  if (names.size() < 2) GTEST_SKIP() << "this machine has only " << *names.begin();
  EXPECT_TRUE(names.count("AVX2"));
}

class ElementwiseBits : public testing::TestWithParam<std::tuple<DType, DType>> {};

TEST_P(ElementwiseBits, ConvertIsTheScalarsOnEveryTargetAndCount) {
  const DType from_type = std::get<0>(GetParam()), to_type = std::get<1>(GetParam());
  VisitFloat(from_type, [&]<class From>(TypeTag<From>) {
    VisitFloat(to_type, [&]<class To>(TypeTag<To>) {
      for (const int64_t count : {0, 1, 7, 15, 16, 17, 31, 32, 33, 64, 100, 10000}) {
        const auto x = RandomBits<From>(count, 5, /*nans=*/true);
        std::vector<To> want;
        for (const From& v : x) want.push_back(Narrow<To>(Widen(v)));
        ForEachTarget([&](const char* name) {
          std::vector<To> y(x.size());
          ConvertElements(DTypeOf<From>::value, x.data(), DTypeOf<To>::value, y.data(), count);
          EXPECT_TRUE(SameBits(y, want)) << name << ", " << count;
        });
      }
    });
  });
}

TEST_P(ElementwiseBits, AccumulateIsTheScalarsOnEveryTargetAndCount) {
  const DType from_type = std::get<0>(GetParam()), to_type = std::get<1>(GetParam());
  VisitFloat(from_type, [&]<class From>(TypeTag<From>) {
    VisitFloat(to_type, [&]<class To>(TypeTag<To>) {
      for (const int64_t count : {0, 1, 15, 17, 33, 1000}) {
        const auto x = RandomBits<From>(count, 5, false);
        const auto start = RandomBits<To>(count, 6, false);
        std::vector<To> want = start;
        for (size_t i = 0; i < want.size(); ++i) {
          want[i] = Narrow<To>(Widen(want[i]) + static_cast<typename WideOf<To>::type>(Widen(x[i])));
        }
        ForEachTarget([&](const char* name) {
          std::vector<To> y = start;
          AccumulateElements(DTypeOf<From>::value, x.data(), DTypeOf<To>::value, y.data(), count);
          EXPECT_TRUE(SameBits(y, want)) << name << ", " << count;
        });
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Pairs, ElementwiseBits, testing::Combine(testing::ValuesIn(kFloats), testing::ValuesIn(kFloats)),
                         [](const auto& types) {
                           return std::string(Name(std::get<0>(types.param))) + "_to_" +
                                  std::string(Name(std::get<1>(types.param)));
                         });

TEST(ElementwiseBits, ScaleIsTheScalarsOnEveryTargetAndCount) {
  for (const DType type : kFloats) {
    VisitFloat(type, [&]<class T>(TypeTag<T>) {
      using Wide = typename WideOf<T>::type;
      for (const int64_t count : {0, 1, 15, 17, 1000}) {
        const auto start = RandomBits<T>(count, 7, true);
        std::vector<T> want = start;
        for (T& v : want) v = Narrow<T>(Widen(v) * static_cast<Wide>(1.0 / 3));
        ForEachTarget([&](const char* name) {
          std::vector<T> y = start;
          ScaleElements(type, 1.0 / 3, y.data(), count);
          EXPECT_TRUE(SameBits(y, want)) << name << ", " << Name(type) << ", " << count;
        });
      }
    });
  }
}

TEST(CpuElementwise, EveryTwoByteValueWidensAndComesBack) {
  for (const DType type : {DType::kBfloat16, DType::kFloat16}) {
    std::vector<uint16_t> all(65536), back(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<float> wide(65536);
    ForEachTarget([&](const char* name) {
      ConvertElements(type, all.data(), DType::kFloat32, wide.data(), 65536);
      ConvertElements(DType::kFloat32, wide.data(), type, back.data(), 65536);
      for (size_t i = 0; i < all.size(); ++i) {
        const uint16_t quiet = wide[i] == wide[i] ? 0 : type == DType::kBfloat16 ? 0x40 : 0x200;
        ASSERT_EQ(back[i], all[i] | quiet) << name << ", " << Name(type);
      }
    });
  }
}

class CpuElementwiseTest : public testing::TestWithParam<int> {
 protected:
  Array Make(int64_t bytes, DType type) {
    buffers_.push_back(device_->Allocate(bytes, Use::kData, "data").value());
    return buffers_.back().array(type);
  }
  template <class T>
  T* Data(const Array& array) {
    return static_cast<T*>(device_->HostAddress(array));
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = GetParam()});
  std::unique_ptr<Stream> stream_ = device_->MakeStream(StreamKind::kCompute);
  std::vector<Buffer> buffers_;
};

TEST_P(CpuElementwiseTest, FillsEveryDtypeAndNothingBeside) {
  for (int t = 0; t <= static_cast<int>(DType::kUint8); ++t) {
    VisitDType(static_cast<DType>(t), [&]<class T>(TypeTag<T>) {
      const DType type = DTypeOf<T>::value;
      const int64_t count = 300001;
      const Array all = Make((count + 2) * SizeOf(type), type);
      device_->elementwise().Fill(*stream_, all.Slice(1, count), 3);
      const T want = Narrow<T>(3.0), zero{};
      EXPECT_TRUE(SameBytes(Data<T>(all), &zero, sizeof(T)));
      EXPECT_TRUE(SameBytes(Data<T>(all) + count + 1, &zero, sizeof(T)));
      for (int64_t i = 1; i <= count; ++i) ASSERT_TRUE(SameBytes(Data<T>(all) + i, &want, sizeof(T))) << Name(type);
    });
  }
}

TEST_P(CpuElementwiseTest, LargeArraysAreWholeWithAnyThreads) {
  const int64_t count = 200003;
  const Array x = Make(4 * count, DType::kFloat32), y = Make(4 * count, DType::kFloat32),
              z = Make(2 * count, DType::kBfloat16);
  for (int64_t i = 0; i < count; ++i) Data<float>(x)[i] = static_cast<float>(i % 251);
  Elementwise& kernels = device_->elementwise();
  kernels.Copy(*stream_, x, y);
  kernels.Accumulate(*stream_, x, y);
  kernels.Scale(*stream_, y, 0.5);
  kernels.Convert(*stream_, y, z);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(Data<float>(y)[i], static_cast<float>(i % 251));
    ASSERT_EQ(ToFloat(Data<Bfloat16>(z)[i]), static_cast<float>(i % 251));
  }
}

TEST_P(CpuElementwiseTest, ConvertsInPlaceBetweenTypesOfOneSize) {
  const Array x = Make(200, DType::kFloat16);
  device_->elementwise().Fill(*stream_, x, 1.5);
  device_->elementwise().Convert(*stream_, x, x.As(DType::kBfloat16));
  EXPECT_EQ(ToFloat(Data<Bfloat16>(x)[99]), 1.5f);
}

TEST_P(CpuElementwiseTest, EmptyArraysAreNoWork) {
  Elementwise& kernels = device_->elementwise();
  kernels.Fill(*stream_, Array(), 1);
  kernels.Copy(*stream_, Array(), Array());
  kernels.Convert(*stream_, Array(), Array());
  kernels.Accumulate(*stream_, Array(), Array());
  kernels.Scale(*stream_, Array(), 1);
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuElementwiseTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace zeroshard::device
