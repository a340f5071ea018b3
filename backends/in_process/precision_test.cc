// What sums over many ranks and average keep of small and large values.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/comm/testing/reference.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

using comm::ReduceOp;
using device::Array;
using device::DType;

// One element of each rank, reduced on all of them; every rank's result is checked to be the same.
template <class T, class Value>
T AllReduceOf(int world_size, DType in, DType out, ReduceOp op, Value value) {
  std::vector<std::unique_ptr<device::Device>> owned;
  std::vector<device::Device*> devices;
  for (int r = 0; r < world_size; ++r) {
    owned.push_back(device::MakeCpuDevice());
    devices.push_back(owned.back().get());
  }
  InProcessOptions options;
  options.host.scratch_bytes = 0;
  auto ranks = *MakeInProcessGroup(devices, options);
  std::vector<std::array<std::byte, sizeof(T)>> results(static_cast<size_t>(world_size));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      const auto buffer = devices[r]->Allocate(16, device::Use::kData, "x");
      std::byte* host = static_cast<std::byte*>(devices[r]->HostAddress(buffer->array(DType::kUint8)));
      const auto mine = value(static_cast<int>(r));
      std::memcpy(host, &mine, sizeof(mine));
      const Array x(buffer->array(in).address(), 1, in);
      const Array y(buffer->array(out).address() + 8, 1, out);
      EXPECT_TRUE(ranks[r]->AllReduce(x, y, op, {.wait_at_once = true}).Wait().ok());
      std::memcpy(results[r].data(), host + 8, sizeof(T));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  T value_of_all;
  std::memcpy(&value_of_all, results[0].data(), sizeof(T));
  return value_of_all;
}

TEST(Precision, Fp16AverageOf4096On32RanksDoesNotOverflow) {
  const uint16_t bits = comm::testing::ToFloat16(4096);
  const auto value = [bits](int) { return bits; };
  EXPECT_EQ((AllReduceOf<uint16_t>(32, DType::kFloat16, DType::kFloat16, ReduceOp::kAverage, value)), bits);
  EXPECT_EQ((AllReduceOf<float>(32, DType::kFloat16, DType::kFloat32, ReduceOp::kSum, value)), 32 * 4096.0f);
}

TEST(Precision, Fp16AverageOfTheLeastValueDoesNotVanish) {
  const uint16_t bits = comm::testing::ToFloat16(6e-8f);
  ASSERT_NE(bits, 0);
  EXPECT_EQ((AllReduceOf<uint16_t>(32, DType::kFloat16, DType::kFloat16, ReduceOp::kAverage, [bits](int) { return bits; })),
            bits);
}

TEST(Precision, AverageIsTheSumDividedOnceWhereRanksAreNoPowerOfTwo) {
  for (const int n : {3, 5, 6, 7, 9}) {
    const auto value = [](int r) { return 0.1f * static_cast<float>(r + 1); };
    const float sum = AllReduceOf<float>(n, DType::kFloat32, DType::kFloat32, ReduceOp::kSum, value);
    const float average = AllReduceOf<float>(n, DType::kFloat32, DType::kFloat32, ReduceOp::kAverage, value);
    EXPECT_EQ(average, sum / static_cast<float>(n));
  }
}

TEST(Precision, MaximumAndMinimumAreNaNWhereAnyRankHoldsOne) {
  for (const int n : {2, 5, 17}) {
    for (int holder = 0; holder < n; ++holder) {
      const auto value = [holder](int r) { return r == holder ? std::nanf("") : static_cast<float>(r); };
      EXPECT_TRUE(std::isnan(AllReduceOf<float>(n, DType::kFloat32, DType::kFloat32, ReduceOp::kMax, value)));
      EXPECT_TRUE(std::isnan(AllReduceOf<float>(n, DType::kFloat32, DType::kFloat32, ReduceOp::kMin, value)));
      if (n == 17) holder += 7;
    }
  }
}

// A tree's error grows with log N: half an ulp a level at most, where a sum in order of ranks has N of them.
TEST(Precision, ErrorAgainstFp64GrowsWithTheTreesDepth) {
  for (const int n : {2, 16, 64, 512}) {
    double exact = 0;
    const auto value = [](int r) { return 1.0f + 1e-3f * static_cast<float>((r * 7919) % 1009); };
    for (int r = 0; r < n; ++r) exact += value(r);
    const float sum = AllReduceOf<float>(n, DType::kFloat32, DType::kFloat32, ReduceOp::kSum, value);
    const double bound = std::ldexp(std::log2(n), -24) * exact;
    EXPECT_LE(std::fabs(sum - exact), bound) << n;
  }
}

}  // namespace
}  // namespace zeroshard::backends
