// --reduction=native on the double, whose own sums go down from the last rank, rounded at every hop.

#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/comm/testing/collective_case.h"
#include "zeroshard/comm/testing/reference.h"

namespace zeroshard::backends {
namespace {

using comm::ReduceOp;
using comm::Segment;
using device::Array;
using device::DType;
using testing::NcclGroup;

constexpr int64_t kCount = 1001;
const NcclOptions kNative{
    .timeout = absl::Seconds(30), .reduction = comm::Reduction::kNative, .scratch_bytes = 1 << 12};  // several pieces

double UnitRoundoff(DType dtype) {
  return dtype == DType::kBfloat16 ? 0x1p-8 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-24;
}

float Load(DType dtype, const std::byte* at) {
  uint16_t bits;
  float value;
  std::memcpy(&bits, at, sizeof bits);
  if (dtype == DType::kBfloat16) return comm::testing::FromBfloat16(bits);
  if (dtype == DType::kFloat16) return comm::testing::FromFloat16(bits);
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A rank's values, on the device and here.
struct Values {
  Values(comm::Communicator& rank, int64_t elements, DType dtype)
      : device(rank.device()),
        buffer(*device.Allocate(elements * SizeOf(dtype), device::Use::kData, "values")),
        array(buffer.array(dtype)),
        stream(device.MakeStream(device::StreamKind::kCompute)),
        host(static_cast<size_t>(array.bytes())) {}
  void Put(int rank) {
    for (int64_t i = 0; i < array.elements(); ++i) {
      comm::testing::PutElement(array.dtype(), 7, rank, i, host.data() + i * SizeOf(array.dtype()));
    }
    device.CopyFromHost(*stream, host.data(), array);
    stream->Synchronize();
  }
  double Get(int64_t i) {
    if (!read) device.CopyToHost(*stream, array, host.data());
    stream->Synchronize();
    read = true;
    return Load(array.dtype(), host.data() + i * SizeOf(array.dtype()));
  }

  device::Device& device;
  device::Buffer buffer;
  Array array;
  std::unique_ptr<device::Stream> stream;
  std::vector<std::byte> host;
  bool read = false;
};

// The exact sum of all ranks' element i, and the sum of its sizes.
std::pair<double, double> Exact(DType dtype, int world_size, int64_t i) {
  double sum = 0, sizes = 0;
  for (int r = 0; r < world_size; ++r) {
    std::byte element[8];
    comm::testing::PutElement(dtype, 7, r, i, element);
    sum += Load(dtype, element);
    sizes += std::fabs(Load(dtype, element));
  }
  return {sum, sizes};
}

TEST(NativeReductions, StayWithinTheBoundThatIsStated) {
  for (const int world_size : {2, 3}) {
    NcclGroup group(world_size, kNative);
    group.Run([&](comm::Communicator& rank) {
      EXPECT_FALSE(rank.sums_by_tree());
      const int n = rank.world_size();
      for (const DType in : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
        for (const DType out : {in, DType::kFloat32}) {
          for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
            const double divisor = op == ReduceOp::kAverage ? n : 1;
            Values whole(rank, n * kCount, in), part(rank, kCount, out), all(rank, n * kCount, out);
            whole.Put(rank.rank());
            const auto check = [&](Values& got, int64_t first, int64_t i) {
              const auto [sum, sizes] = Exact(in, n, first + i);
              const double bound = ((n - 1) * UnitRoundoff(in) * sizes + UnitRoundoff(out) * std::fabs(sum)) / divisor;
              EXPECT_NEAR(got.Get(i), sum / divisor, 1.01 * bound) << Name(in) << " -> " << Name(out) << " " << i;
            };
            ASSERT_TRUE(rank.ReduceScatter(whole.array, part.array, op).Wait().ok());
            for (int64_t i = 0; i < kCount; ++i) check(part, rank.rank() * kCount, i);
            ASSERT_TRUE(rank.AllReduce(whole.array, all.array, op).Wait().ok());
            for (int64_t i = 0; i < n * kCount; i += 7) check(all, 0, i);
            // Parts that lie apart, in the first elements of each rank's part.
            Values apart(rank, kCount / 2, out);
            const Segment strided{whole.array.Slice(0, (n - 1) * kCount + kCount / 2), apart.array, kCount};
            ASSERT_TRUE(rank.ReduceScatter({&strided, 1}, op).Wait().ok());
            for (int64_t i = 0; i < kCount / 2; ++i) check(apart, rank.rank() * kCount, i);
            Values at_root(rank, n * kCount, out);
            ASSERT_TRUE(rank.Reduce(whole.array, rank.rank() == 1 ? at_root.array : Array(), op, 1).Wait().ok());
            for (int64_t i = 0; rank.rank() == 1 && i < n * kCount; i += 7) check(at_root, 0, i);
          }
        }
      }
    });
  }
}

// What the tree's own test would not notice if it ran natively.
TEST(NativeReductions, AddInAnotherOrderThanTheTree) {
  for (const auto reduction : {comm::Reduction::kTree, comm::Reduction::kNative}) {
    NcclOptions options = kNative;
    options.reduction = reduction;
    NcclGroup group(3, options);
    std::atomic<int64_t> others{0};
    group.Run([&](comm::Communicator& rank) {
      EXPECT_EQ(rank.sums_by_tree(), reduction == comm::Reduction::kTree);
      Values x(rank, kCount, DType::kFloat32);
      x.Put(rank.rank());
      ASSERT_TRUE(rank.AllReduce(x.array, x.array, ReduceOp::kSum).Wait().ok());
      for (int64_t i = 0; i < kCount; ++i) {
        std::byte elements[3][8], by_tree[8];
        const std::byte* const ranks[] = {elements[0], elements[1], elements[2]};
        for (int r = 0; r < 3; ++r) comm::testing::PutElement(DType::kFloat32, 7, r, i, elements[r]);
        comm::testing::ReduceElement(DType::kFloat32, DType::kFloat32, ReduceOp::kSum, ranks, by_tree);
        if (x.Get(i) != Load(DType::kFloat32, by_tree)) ++others;
      }
    });
    EXPECT_EQ(others > 0, reduction == comm::Reduction::kNative);
  }
}

TEST(NativeReductions, AreExactForIntegers) {
  NcclGroup group(3, kNative);
  group.Run([](comm::Communicator& rank) {
    for (const DType dtype : {DType::kInt32, DType::kInt64}) {
      for (const auto kind : {comm::OpKind::kAllReduce, comm::OpKind::kReduceScatter, comm::OpKind::kReduce}) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
          comm::testing::CaseOnRank on_rank(
              rank, {.kind = kind, .op = op, .in = dtype, .out = dtype, .counts = {800, 3}, .gap = 5, .in_place = true});
          comm::Work work = on_rank.Issue();
          on_rank.Check(work);
        }
      }
    }
  });
}

TEST(NativeReductions, RefuseAnExtremeOfFloatsAndStayUsable) {
  NcclGroup group(2, kNative);
  group.Run([](comm::Communicator& rank) {
    Values x(rank, 10, DType::kBfloat16);
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      const absl::Status refused = rank.AllReduce(x.array, x.array, op).Wait();
      EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
      EXPECT_TRUE(absl::StrContains(refused.message(), "drop NaN")) << refused;
    }
    EXPECT_TRUE(rank.AllReduce(x.array, x.array, ReduceOp::kSum).Wait().ok());
  });
}

}  // namespace
}  // namespace zeroshard::backends
