#include "zeroshard/device/cuda/reduce_kernels.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "zeroshard/device/cpu/reduce.h"
#include "zeroshard/device/cuda/kernel_pair.h"

namespace zeroshard::device::cuda {
namespace {

using ReduceKernels = KernelTest;

// `parts` of n elements, `stride` apart; the CPU's result goes to out.cpu, ours to out.cuda.
struct Case {
  KernelPair& pair;
  Both received;
  int64_t parts, stride;
  Both own = {};
  int64_t own_part = -1;

  void Run(const ReduceSpec& spec, const Both& out) const {
    const int64_t n = out.cpu.elements();
    std::vector<const void*> of_cpu;
    for (int64_t part = 0; part < parts; ++part) {
      const Array at = part == own_part ? own.cpu : received.cpu.Slice(part * stride, n);
      of_cpu.push_back(reinterpret_cast<const void*>(at.address()));
    }
    device::ReduceParts(spec, of_cpu, reinterpret_cast<void*>(out.cpu.address()), n);
    const PartsOfRanks of_ranks{received.cuda, parts, stride, own.cuda, own_part};
    EXPECT_EQ(cuda::ReduceParts(pair.native(), spec, of_ranks, out.cuda), cudaSuccess);
    pair.ExpectSame(out);
  }
};

constexpr Combine kCombines[] = {Combine::kSum, Combine::kMax, Combine::kMin};

TEST_P(ReduceKernels, TheTreeHasTheBitsOfTheCpu) {
  for (const DType in : kActivations) {
    for (const DType out : kActivations) {
      for (const int64_t parts : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64}) {
        for (const int64_t n : {1, 63, 68}) {
          SCOPED_TRACE(testing::Message() << Name(in).data() << " to " << Name(out).data() << ", " << parts << " parts of "
                                          << n);
          KernelPair pair;
          const int64_t stride = n == 68 ? 72 : n;
          const Both received = pair.Make(RandomFloats(parts * stride, static_cast<uint32_t>(parts)), in);
          const Case of{pair, received, parts, stride};
          of.Run({.in = in, .out = out}, pair.Make(n, out));
          of.Run({.in = in, .out = out, .divisor = static_cast<double>(parts)}, pair.Make(n, out));
        }
      }
    }
  }
}

TEST_P(ReduceKernels, MaximumAndMinimumAreNanWhereAnyPartIs) {
  for (const Combine combine : kCombines) {
    KernelPair pair;
    std::vector<float> values = RandomFloats(5 * 40, 3);
    for (const size_t at : {size_t{1}, size_t{42}, size_t{197}}) values[at] = std::nanf("");
    const Case of{pair, pair.Make(values, DType::kFloat32), 5, 40};
    of.Run({.combine = combine}, pair.Make(40, DType::kFloat32));
    of.Run({.out = DType::kBfloat16, .combine = combine}, pair.Make(40, DType::kBfloat16));
  }
}

TEST_P(ReduceKernels, OurOwnPartMayLieElsewhereAndBeTheResult) {
  for (int64_t own_part = 0; own_part < 4; ++own_part) {
    KernelPair pair;
    const Both own = pair.Make(RandomFloats(65, 9), DType::kFloat32);
    const Case of{pair, pair.Make(RandomFloats(4 * 65, 8), DType::kFloat32), 4, 65, own, own_part};
    of.Run({}, own);
  }
}

TEST_P(ReduceKernels, WideTypesAndIntegers) {
  for (const Combine combine : kCombines) {
    KernelPair pair;
    const Case doubles{pair, pair.Make(RandomFloats(3 * 33, 1), DType::kFloat64), 3, 33};
    doubles.Run({.in = DType::kFloat64, .out = DType::kFloat64, .combine = combine, .divisor = 3},
                pair.Make(33, DType::kFloat64));
    std::vector<int32_t> narrow(3 * 33);
    std::vector<int64_t> wide(3 * 33);
    for (size_t i = 0; i < wide.size(); ++i) {
      narrow[i] = static_cast<int32_t>(i * 0x9e3779b1u);
      wide[i] = static_cast<int64_t>(i * 0x9e3779b97f4a7c15u);
    }
    const Case ints{pair, pair.MakeOf(narrow), 3, 33};
    ints.Run({.in = DType::kInt32, .out = DType::kInt32, .combine = combine}, pair.Make(33, DType::kInt32));
    const Case longs{pair, pair.MakeOf(wide), 3, 33};
    longs.Run({.in = DType::kInt64, .out = DType::kInt64, .combine = combine}, pair.Make(33, DType::kInt64));
  }
}

TEST_P(ReduceKernels, RefusesWhatIsNoReduction) {
  KernelPair pair;
  const Both x = pair.Make(8, DType::kInt32);
  const auto reduce = [&](const ReduceSpec& spec, int64_t parts) {
    return cuda::ReduceParts(pair.native(), spec, {.received = x.cuda, .parts = parts, .stride = 1}, x.cuda.Slice(0, 1));
  };
  EXPECT_EQ(reduce({.in = DType::kInt32, .out = DType::kFloat32}, 2), cudaErrorInvalidValue);
  EXPECT_EQ(reduce({.in = DType::kInt32, .out = DType::kInt32, .divisor = 2}, 2), cudaErrorInvalidValue);
  EXPECT_EQ(reduce({.in = DType::kInt32, .out = DType::kInt32}, 0), cudaErrorInvalidValue);
  EXPECT_EQ(reduce({.in = DType::kInt32, .out = DType::kInt32}, kMaxReduceParts + 1), cudaErrorInvalidValue);
}

INSTANTIATE_TEST_SUITE_P(Orders, ReduceKernels, testing::Range(0, KernelOrders()));

}  // namespace
}  // namespace zeroshard::device::cuda
