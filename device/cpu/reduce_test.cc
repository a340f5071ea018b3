#include "zeroshard/device/cpu/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/each_target.h"
#include "zeroshard/device/dtype_visitor.h"

namespace zeroshard::device {
namespace {

template <class T>
T Random(std::mt19937& random) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(uint64_t{random()} << 32 | random());
  else
    return Narrow<T>(std::normal_distribution<double>(0, 1)(random));
}

// Level by level, as the design words it.
template <class Wide>
Wide Tree(std::vector<Wide> level, Combine combine) {
  while (level.size() > 1) {
    std::vector<Wide> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      const Wide a = level[i], b = level[i + 1];
      if (combine == Combine::kMax) next.push_back(std::max(a, b));
      if (combine == Combine::kMin) next.push_back(std::min(a, b));
      if constexpr (std::is_integral_v<Wide>) {
        using U = std::make_unsigned_t<Wide>;
        if (combine == Combine::kSum) next.push_back(static_cast<Wide>(static_cast<U>(a) + static_cast<U>(b)));
      } else {
        if (combine == Combine::kSum) next.push_back(a + b);
      }
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  return level[0];
}

template <class From>
class Parts {
 public:
  Parts(size_t parts, int64_t count, uint32_t seed) {
    std::mt19937 random(seed);
    for (size_t p = 0; p < parts; ++p) {
      values_.emplace_back();
      for (int64_t i = 0; i < count; ++i) values_.back().push_back(Random<From>(random));
    }
    for (auto& v : values_) pointers_.push_back(v.data());
  }
  std::span<const void* const> pointers() const { return pointers_; }
  std::vector<From>& operator[](size_t p) { return values_[p]; }

  template <class To>
  std::vector<To> Want(Combine combine, double divisor) const {
    using Wide = typename WideOf<From>::type;
    std::vector<To> want;
    for (size_t i = 0; i < values_[0].size(); ++i) {
      std::vector<Wide> level;
      for (const auto& v : values_) level.push_back(Widen(v[i]));
      Wide sum = Tree(level, combine);
      if (divisor != 1) sum = sum / static_cast<Wide>(divisor);
      want.push_back(Narrow<To>(sum));
    }
    return want;
  }

 private:
  std::vector<std::vector<From>> values_;
  std::vector<const void*> pointers_;
};

bool SameBytes(const void* a, const void* b, size_t bytes) { return bytes == 0 || std::memcmp(a, b, bytes) == 0; }
template <class T>
bool SameBits(const std::vector<T>& a, const T* b) {
  return SameBytes(a.data(), b, a.size() * sizeof(T));
}

using Types = std::tuple<DType, DType>;
class ReduceTest : public testing::TestWithParam<Types> {};

TEST_P(ReduceTest, IsTheTreeForAnyNumberOfPartsCountAndTarget) {
  const DType in = std::get<0>(GetParam()), out_type = std::get<1>(GetParam());
  VisitDType(in, [&]<class From>(TypeTag<From>) {
    VisitDType(out_type, [&]<class To>(TypeTag<To>) {
      if constexpr (std::is_same_v<From, To> ||
                    (sizeof(From) <= 4 && sizeof(To) <= 4 && !std::is_integral_v<From> && !std::is_integral_v<To>)) {
        for (const size_t parts : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 31, 64}) {
          for (const int64_t count : {0, 1, 7, 33, 513, 1100}) {
            if (count > 100 && parts > 9) continue;
            Parts<From> x(parts, count, static_cast<uint32_t>(parts));
            for (const Combine combine : {Combine::kSum, Combine::kMax, Combine::kMin}) {
              for (const double divisor : {1.0, 3.0, 4.0}) {
                const ReduceSpec spec{.in = in, .out = out_type, .combine = combine, .divisor = divisor};
                if (!CanReduce(spec) || (divisor != 1 && combine != Combine::kSum)) continue;
                const auto want = count == 0 ? std::vector<To>() : x.template Want<To>(combine, divisor);
                ForEachTarget([&](const char* name) {
                  std::vector<To> out(static_cast<size_t>(count) + 1);
                  ReduceParts(spec, x.pointers(), out.data(), count);
                  EXPECT_TRUE(SameBits(want, out.data())) << name << ": " << parts << " parts of " << count;
                  const To zero{};
                  EXPECT_TRUE(SameBytes(&out.back(), &zero, sizeof(To)));
                });
              }
            }
          }
        }
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ReduceTest,
                         testing::Values(Types{DType::kFloat32, DType::kFloat32}, Types{DType::kFloat64, DType::kFloat64},
                                         Types{DType::kBfloat16, DType::kBfloat16}, Types{DType::kFloat16, DType::kFloat16},
                                         Types{DType::kBfloat16, DType::kFloat32}, Types{DType::kFloat16, DType::kFloat32},
                                         Types{DType::kFloat32, DType::kBfloat16}, Types{DType::kFloat32, DType::kFloat16},
                                         Types{DType::kInt32, DType::kInt32}, Types{DType::kInt64, DType::kInt64}),
                         [](const auto& types) {
                           return std::string(Name(std::get<0>(types.param))) + "_to_" +
                                  std::string(Name(std::get<1>(types.param)));
                         });

TEST(Reduce, TheResultMayLieOnAnyPart) {
  for (const size_t parts : {1, 2, 3, 5, 8, 12}) {
    for (size_t on = 0; on < parts; ++on) {
      for (const DType type : {DType::kFloat32, DType::kBfloat16}) {
        VisitFloat(type, [&]<class T>(TypeTag<T>) {
          Parts<T> x(parts, 1500, 9);
          const auto want = x.template Want<T>(Combine::kSum, 3);
          ReduceParts({.in = type, .out = type, .divisor = 3}, x.pointers(), x[on].data(), 1500);
          EXPECT_TRUE(SameBits(want, x[on].data())) << Name(type) << ", part " << on << " of " << parts;
        });
      }
    }
  }
}

TEST(Reduce, StagesThroughFp32GiveTheBitsOfOneCall) {
  Parts<Bfloat16> x(7, 777, 3);
  const auto want = x.Want<Bfloat16>(Combine::kSum, 7);
  const ReduceSpec first{.in = DType::kBfloat16, .out = DType::kFloat32}, join{};
  std::vector<float> low(777), middle(777), high(777);
  ReduceParts(first, x.pointers().subspan(0, 4), low.data(), 777);
  ReduceParts(first, x.pointers().subspan(4, 2), middle.data(), 777);
  ReduceParts(first, x.pointers().subspan(6, 1), high.data(), 777);
  const void* upper[] = {middle.data(), high.data()};
  ReduceParts(join, upper, middle.data(), 777);
  const void* both[] = {low.data(), middle.data()};
  std::vector<Bfloat16> out(777);
  ReduceParts({.in = DType::kFloat32, .out = DType::kBfloat16, .divisor = 7}, both, out.data(), 777);
  EXPECT_TRUE(SameBits(want, out.data()));
}

TEST(Reduce, StoresPastTheCacheGiveTheSameBits) {
  for (const size_t parts : {2, 3}) {
    for (const DType type : {DType::kFloat32, DType::kBfloat16}) {
      VisitFloat(type, [&]<class T>(TypeTag<T>) {
        Parts<T> x(parts, 5003, 4);
        const auto want = x.template Want<T>(Combine::kSum, 1);
        std::vector<T> memory(5003 + 64);
        T* aligned = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
        for (T* out : {aligned, aligned + 1}) {
          ForEachTarget([&](const char* name) {
            ReduceParts({.in = type, .out = type, .stores = Stores::kStreaming}, x.pointers(), out, 5003);
            EXPECT_TRUE(SameBits(want, out)) << name;
          });
        }
      });
    }
  }
}

TEST(Reduce, GivesEachOfSeveralOutputsTheSameBits) {
  for (const size_t parts : {1, 2, 3}) {
    for (const DType type : {DType::kFloat32, DType::kBfloat16}) {
      for (const double divisor : {1.0, 3.0}) {
        for (const Stores stores : {Stores::kCached, Stores::kStreaming}) {
          VisitFloat(type, [&]<class T>(TypeTag<T>) {
            Parts<T> x(parts, 1500, 5);
            const auto want = x.template Want<T>(Combine::kSum, divisor);
            std::vector<T> memory(3 * 1536 + 64);
            T* const aligned = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
            // One of them lies on a part.
            void* const outs[] = {aligned, x[parts - 1].data(), aligned + 1536};
            ReduceParts({.in = type, .out = type, .divisor = divisor, .stores = stores}, x.pointers(), outs, 1500);
            for (void* out : outs) EXPECT_TRUE(SameBits(want, static_cast<const T*>(out))) << Name(type) << ", " << parts;
          });
        }
      }
    }
  }
}

TEST(Reduce, MaximumAndMinimumAreNanWhereAnyPartIs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t parts : {1, 2, 3, 8, 9}) {
    for (size_t bad = 0; bad < parts; ++bad) {
      Parts<float> x(parts, 40, 2);
      x[bad][17] = nan;
      x[bad][39] = nan;
      for (const Combine combine : {Combine::kMax, Combine::kMin, Combine::kSum}) {
        ForEachTarget([&](const char* name) {
          std::vector<float> out(40);
          ReduceParts({.combine = combine}, x.pointers(), out.data(), 40);
          for (size_t i = 0; i < 40; ++i) EXPECT_EQ(std::isnan(out[i]), i == 17 || i == 39) << name << ", " << i;
        });
      }
    }
  }
}

TEST(Reduce, AnAverageOfManyLargeFp16DoesNotOverflow) {
  Parts<Float16> x(32, 100, 1);
  for (size_t p = 0; p < 32; ++p) {
    for (Float16& v : x[p]) v = ToFloat16(4096.0f);
  }
  std::vector<Float16> out(100);
  ReduceParts({.in = DType::kFloat16, .out = DType::kFloat16, .divisor = 32}, x.pointers(), out.data(), 100);
  EXPECT_EQ(ToFloat(out[99]), 4096.0f);
}

TEST(Reduce, KnowsWhatItHas) {
  EXPECT_TRUE(CanReduce({.in = DType::kFloat16, .out = DType::kBfloat16}));
  EXPECT_FALSE(CanReduce({.in = DType::kUint8, .out = DType::kUint8}));
  EXPECT_FALSE(CanReduce({.in = DType::kFloat64, .out = DType::kFloat32}));
  EXPECT_FALSE(CanReduce({.in = DType::kFloat32, .out = DType::kFloat64}));
  EXPECT_FALSE(CanReduce({.in = DType::kInt64, .out = DType::kInt64, .divisor = 2}));
}

}  // namespace
}  // namespace zeroshard::device
