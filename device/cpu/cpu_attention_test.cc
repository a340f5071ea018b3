#include "zeroshard/device/cpu/cpu_attention.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/attention_kernels.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cpu/each_target.h"
#include "zeroshard/device/cpu/test_arrays.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/late/test_devices.h"

namespace zeroshard::device {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

int64_t Rows(const AttentionSpec& s) { return s.batch * s.context; }
int64_t Width(const AttentionSpec& s) { return s.heads * s.head_width; }

// Probabilities of one query of one head, in double.
Doubles Probabilities(const AttentionSpec& s, const Floats& qkv, int64_t sequence, int64_t head, int64_t query,
                      double* log_sum_exp) {
  const auto at = [&](int64_t position, int64_t part) {
    return &qkv[(sequence * s.context + position) * 3 * Width(s) + part * Width(s) + head * s.head_width];
  };
  Doubles p;
  double sum = 0;
  for (int64_t key = 0; key <= query; ++key) {
    double score = 0;
    for (int64_t i = 0; i < s.head_width; ++i) score += double(at(query, 0)[i]) * at(key, 1)[i];
    p.push_back(std::exp(score / std::sqrt(double(s.head_width))));
    sum += p.back();
  }
  for (double& value : p) value /= sum;
  *log_sum_exp = std::log(sum);
  return p;
}

struct Result {
  Doubles out, log_sum_exp, d_qkv;
};

Result Reference(const AttentionSpec& s, const Floats& qkv, const Floats& d_out) {
  Result result{Doubles(d_out.size()), {}, Doubles(qkv.size())};
  const double scale = 1 / std::sqrt(double(s.head_width));
  for (int64_t sequence = 0; sequence < s.batch; ++sequence) {
    for (int64_t head = 0; head < s.heads; ++head) {
      const int64_t column = head * s.head_width;
      const auto at = [&](int64_t position, int64_t part) {
        return (sequence * s.context + position) * 3 * Width(s) + part * Width(s) + column;
      };
      for (int64_t query = 0; query < s.context; ++query) {
        double log_sum_exp = 0;
        const Doubles p = Probabilities(s, qkv, sequence, head, query, &log_sum_exp);
        result.log_sum_exp.push_back(log_sum_exp);
        const int64_t row = (sequence * s.context + query) * Width(s) + column;
        Doubles d_p(p.size());
        double dot = 0;
        for (size_t key = 0; key < p.size(); ++key) {
          for (int64_t i = 0; i < s.head_width; ++i) {
            const int64_t value = at(static_cast<int64_t>(key), 2) + i;
            result.out[row + i] += p[key] * qkv[value];
            result.d_qkv[value] += p[key] * d_out[row + i];
            d_p[key] += double(d_out[row + i]) * qkv[value];
          }
          dot += p[key] * d_p[key];
        }
        for (size_t key = 0; key < p.size(); ++key) {
          const double d_score = p[key] * (d_p[key] - dot) * scale;
          for (int64_t i = 0; i < s.head_width; ++i) {
            result.d_qkv[at(query, 0) + i] += d_score * qkv[at(static_cast<int64_t>(key), 1) + i];
            result.d_qkv[at(static_cast<int64_t>(key), 1) + i] += d_score * qkv[at(query, 0) + i];
          }
        }
      }
    }
  }
  return result;
}

struct Got {
  Floats out, log_sum_exp, d_qkv;
};

Got Attend(Device& device, const AttentionSpec& s, const Floats& qkv, const Floats& d_out,
           Bfloat16Products bfloat16 = FindBfloat16Products()) {
  TestArrays arrays(device);
  FirstError error;
  auto plan = bfloat16 == FindBfloat16Products() ? device.PlanAttention(s) : PlanCpuAttention(s, 1, device, error, bfloat16);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const Array out = arrays.Empty(Rows(s) * Width(s), s.dtype), lse = arrays.Empty(Rows(s) * s.heads);
  const Array d_qkv = arrays.Empty(Rows(s) * 3 * Width(s), s.dtype);
  const Array workspace = arrays.Empty((*plan)->workspace_bytes() / 4), in = arrays.Make(qkv, s.dtype);
  (*plan)->Forward(arrays.stream(), in, out, lse, workspace);
  (*plan)->Backward(arrays.stream(), in, out, lse, arrays.Make(d_out, s.dtype), d_qkv, workspace);
  Got got{arrays.ReadWide(out), arrays.Read(lse), arrays.ReadWide(d_qkv)};
  EXPECT_TRUE(error.status().ok() && device.status().ok()) << error.status() << device.status();
  return got;
}

class CpuAttentionTest : public testing::TestWithParam<AttentionSpec> {
 protected:
  const AttentionSpec spec_ = GetParam();
  const double half_ = HalfUlp(spec_.dtype);
  const Floats qkv_ = Rounded(RandomFloats(Rows(spec_) * 3 * Width(spec_), 1), spec_.dtype);
  const Floats d_out_ = Rounded(RandomFloats(Rows(spec_) * Width(spec_), 2), spec_.dtype);

  // Roundings in all: of probabilities and out; of those, the scores' gradients and d_qkv.
  void ExpectTheFormulas(const Got& got) {
    const Result want = Reference(spec_, qkv_, d_out_);
    ExpectNear(got.out, want.out, 3e-6 + 3 * half_);
    ExpectNear(got.log_sum_exp, want.log_sum_exp, 3e-6);
    ExpectNear(got.d_qkv, want.d_qkv, 2e-5 + 6 * half_);
  }
};

TEST_P(CpuAttentionTest, ForwardAndBackward_AreTheFormulas) {
  ExpectTheFormulas(Attend(*MakeTestDevice(), spec_, qkv_, d_out_));
  ExpectTheFormulas(Attend(*MakeOrderedDevice({}), spec_, qkv_, d_out_));
}

TEST_P(CpuAttentionTest, WidenedOperands_GiveTheFormulasToo) {
  ExpectTheFormulas(Attend(*MakeCpuDevice(), spec_, qkv_, d_out_, Bfloat16Products::kWidened));
}

TEST_P(CpuAttentionTest, ThreadsAndWhatScratchHeld_ChangeNoBit) {
  const Got one = Attend(*MakeCpuDevice(), spec_, qkv_, d_out_);
  for (const int threads : {1, 2, 3}) {
    const auto device = MakeCpuDevice({.threads = threads});
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Got got = Attend(*device, spec_, qkv_, d_out_);
      EXPECT_EQ(got.out, one.out);
      EXPECT_EQ(got.log_sum_exp, one.log_sum_exp);
      EXPECT_EQ(got.d_qkv, one.d_qkv);
    }
  }
}

std::vector<AttentionSpec> Specs() {
  std::vector<AttentionSpec> specs;
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (AttentionSpec spec : {AttentionSpec{1, 1, 1, 1}, AttentionSpec{2, 3, 17, 13}, AttentionSpec{1, 2, 64, 8},
                               AttentionSpec{2, 1, 65, 16}, AttentionSpec{1, 2, 150, 40}}) {
      spec.dtype = dtype;
      specs.push_back(spec);
    }
  }
  return specs;
}

INSTANTIATE_TEST_SUITE_P(Shapes, CpuAttentionTest, testing::ValuesIn(Specs()), [](const auto& s) {
  return std::string(Name(s.param.dtype)) + "_" + std::to_string(s.param.batch) + "x" + std::to_string(s.param.heads) + "x" +
         std::to_string(s.param.context) + "x" + std::to_string(s.param.head_width);
});

TEST(CpuAttentionEdgeTest, NothingOfALaterPosition_IsSeen) {
  const AttentionSpec spec{.batch = 1, .heads = 1, .context = 70, .head_width = 4};
  Floats qkv = RandomFloats(70 * 12, 1);
  const Floats d_out = RandomFloats(70 * 4, 2);
  const auto device = MakeTestDevice();
  const Floats before = Attend(*device, spec, qkv, d_out).out;
  for (int i = 66 * 12; i < 70 * 12; ++i) qkv[i] = 1e4f;
  const Floats after = Attend(*device, spec, qkv, d_out).out;
  EXPECT_EQ(Floats(before.begin(), before.begin() + 66 * 4), Floats(after.begin(), after.begin() + 66 * 4));
  EXPECT_NE(before[66 * 4], after[66 * 4]);
}

TEST(CpuAttentionEdgeTest, LargeScores_StayFinite) {
  const AttentionSpec spec{.batch = 1, .heads = 1, .context = 20, .head_width = 8};
  const Got got = Attend(*MakeTestDevice(), spec, RandomFloats(20 * 24, 1, 100), RandomFloats(20 * 8, 2));
  for (const float value : got.out) EXPECT_TRUE(std::isfinite(value));
  for (const float value : got.d_qkv) EXPECT_TRUE(std::isfinite(value));
}

TEST(CpuAttentionEdgeTest, BadSizesAndDtypes_AreRefused) {
  const auto device = MakeTestDevice();
  EXPECT_EQ(device->PlanAttention({.batch = 1, .heads = 0, .context = 4, .head_width = 2}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device->PlanAttention({1, 1, 4, 2, DType::kFloat64}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(AttentionKernelsTest, EveryVectorWidth_GivesTheSameBits) {
  constexpr int64_t kRows = 37, kKeys = 93;
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    std::vector<Floats> first;
    ForEachTarget([&](const char* name) {
      SCOPED_TRACE(name);
      Floats scores = RandomFloats(kRows * kKeys, 1, 3), lse(kRows), transposed = RandomFloats(kRows * kKeys, 2, 3);
      Floats d = RandomFloats(kRows * kKeys, 3), dots(kRows), p(kRows * kKeys), p_transposed(p), d_scores(p);
      const Floats lse_of = RandomFloats(kKeys, 4), dots_of = RandomFloats(kKeys, 5);
      CausalSoftmax({.rows = kRows,
                     .keys = kKeys,
                     .scale = 0.3f,
                     .scores = scores.data(),
                     .dtype = dtype,
                     .probabilities = p.data(),
                     .log_sum_exp = lse.data()});
      CausalSoftmaxBackward({.rows = kRows,
                             .queries = kKeys,
                             .scale = 0.3f,
                             .scores = transposed.data(),
                             .d_probabilities = d.data(),
                             .dtype = dtype,
                             .probabilities = p_transposed.data(),
                             .d_scores = d_scores.data(),
                             .log_sum_exp = lse_of.data(),
                             .d_dot_out = dots_of.data()});
      InnerProducts(dtype, p.data(), d_scores.data(), kKeys, kRows, kKeys, dots.data());
      const std::vector<Floats> all = {p, lse, p_transposed, d_scores, dots};
      if (first.empty()) first = all;
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(std::memcmp(all[i].data(), first[i].data(), 4 * all[i].size()), 0) << Name(dtype) << ", array " << i;
      }
    });
  }
}

}  // namespace
}  // namespace zeroshard::device
