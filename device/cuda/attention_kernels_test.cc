#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/device/cuda/kernel_attention.h"
#include "zeroshard/device/cuda/kernel_pair.h"

namespace zeroshard::device::cuda {
namespace {

using AttentionKernels = KernelTest;

// What forward and backward of both devices leave.
struct Results {
  Both out, log_sum_exp, d_qkv;
};

Results RunBoth(KernelPair& pair, const AttentionSpec& spec) {
  const int64_t positions = spec.batch * spec.heads * spec.context, n = positions * spec.head_width;
  const Both qkv = pair.Make(RandomFloats(3 * n, 1, 1.5f), spec.dtype), d_out = pair.Make(RandomFloats(n, 2), spec.dtype);
  const Results r{pair.Make(n, spec.dtype), pair.Make(positions, DType::kFloat32), pair.Make(3 * n, spec.dtype)};
  const std::unique_ptr<Attention> of_cpu = pair.cpu().PlanAttention(spec).value(),
                                   of_cuda = PlanKernelAttention(spec).value();
  const Both work = pair.Make(std::max(of_cpu->workspace_bytes(), of_cuda->workspace_bytes()), DType::kUint8);
  pair.Run([&](const Side& s) {
    Attention& attention = s.is_cuda ? *of_cuda : *of_cpu;
    attention.Forward(s.stream, s(qkv), s(r.out), s(r.log_sum_exp), s(work));
    attention.Backward(s.stream, s(qkv), s(r.out), s(r.log_sum_exp), s(d_out), s(r.d_qkv), s(work));
  });
  return r;
}

// Sums of up to context or head_width products, in another order; what is stored is rounded, and so is what the CPU multiplies again.
void Check(const AttentionSpec& spec) {
  SCOPED_TRACE(testing::Message() << Name(spec.dtype).data() << ": " << spec.batch << " x " << spec.heads << " x "
                                  << spec.context << " x " << spec.head_width);
  KernelPair pair;
  const Results r = RunBoth(pair, spec);
  const double bound = 0x1p-22 * static_cast<double>(spec.context + spec.head_width) + 2 * HalfUlp(spec.dtype);
  pair.ExpectNear(r.out, bound, 1);
  pair.ExpectNear(r.log_sum_exp, bound, 1);
  pair.ExpectNear(r.d_qkv, bound, 8);
}

TEST_P(AttentionKernels, AgreeWithTheCpuInEachDtype) {
  for (const DType dtype : kActivations) {
    Check({.batch = 1, .heads = 1, .context = 1, .head_width = 1, .dtype = dtype});
    Check({.batch = 2, .heads = 3, .context = 33, .head_width = 24, .dtype = dtype});
    Check({.batch = 1, .heads = 2, .context = 100, .head_width = 64, .dtype = dtype});
  }
}

TEST_P(AttentionKernels, AgreeWithTheCpuForEveryTile) {
  for (const int64_t head_width : {7, 64, 65, 128, 130, 256}) {
    for (const int64_t context : {31, 32, 65}) {
      Check({.batch = 1, .heads = 2, .context = context, .head_width = head_width, .dtype = DType::kFloat32});
    }
  }
}

TEST_P(AttentionKernels, GiveTheSameBitsInEveryRun) {
  const AttentionSpec spec{.batch = 2, .heads = 2, .context = 70, .head_width = 40, .dtype = DType::kFloat32};
  std::vector<std::byte> before;
  for (int run = 0; run < 2; ++run) {
    KernelPair pair;
    const Results r = RunBoth(pair, spec);
    const std::vector<std::byte> now = pair.Bytes(r.d_qkv.cuda);
    if (run > 0) {
      EXPECT_EQ(now, before);
    }
    before = now;
  }
}

TEST(KernelAttention, RefusesWhatItHasNot) {
  const AttentionSpec good{.batch = 1, .heads = 1, .context = 1, .head_width = 1};
  AttentionSpec spec = good;
  spec.context = 0;
  EXPECT_EQ(PlanKernelAttention(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec = good;
  spec.head_width = 257;
  EXPECT_EQ(PlanKernelAttention(spec).status().code(), absl::StatusCode::kUnimplemented);
  spec = good;
  spec.dtype = DType::kFloat64;
  EXPECT_EQ(PlanKernelAttention(spec).status().code(), absl::StatusCode::kUnimplemented);
}

INSTANTIATE_TEST_SUITE_P(Orders, AttentionKernels, testing::Range(0, KernelOrders()));

}  // namespace
}  // namespace zeroshard::device::cuda
