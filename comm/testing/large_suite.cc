// The part of the suite on large counts: many pieces, stores past the cache, on values whose sums are exact.

#include <vector>

#include "zeroshard/comm/testing/collective_suite.h"

namespace zeroshard::comm::testing {
namespace {

using device::Array;
using device::DType;

// A part is past 8 MiB, and of no round size.
constexpr int64_t kCount = (int64_t{1} << 21) + 7;

float ValueOf(int rank, int64_t i) { return static_cast<float>(i % 8191 + rank); }

// A rank's buffer of so many elements, written and read as a whole.
class Values {
 public:
  Values(Communicator& rank, int64_t elements)
      : device_(rank.device()),
        buffer_(*device_.Allocate(4 * elements, device::Use::kData, "values")),
        stream_(device_.MakeStream(device::StreamKind::kCompute)),
        host_(static_cast<size_t>(elements)) {}

  Array array() const { return buffer_.array(DType::kFloat32); }
  // [first, first + count) = ValueOf(rank, 0, 1, ...)
  void Put(int rank, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) host_[static_cast<size_t>(first + i)] = ValueOf(rank, i);
    device_.CopyFromHost(*stream_, host_.data() + first, array().Slice(first, count));
    stream_->Synchronize();
  }
  // Elements of [first, first + count) that are not factor * ValueOf(rank, i) + more.
  int64_t Differ(int64_t first, int64_t count, int rank, float factor, float more) {
    device_.CopyToHost(*stream_, array().Slice(first, count), host_.data());
    stream_->Synchronize();
    int64_t differ = 0;
    for (int64_t i = 0; i < count; ++i) differ += host_[static_cast<size_t>(i)] != factor * ValueOf(rank, i) + more ? 1 : 0;
    return differ;
  }

 private:
  device::Device& device_;
  device::Buffer buffer_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<float> host_;
};

// Rank r gives ValueOf(r, i) everywhere; ranks add up to n ValueOf(0, i) + 0 + 1 + ... + n - 1.
void RunLarge(Communicator& rank) {
  const int n = rank.world_size();
  const float factor = static_cast<float>(n);
  const float more = static_cast<float>(n * (n - 1) / 2);
  Values whole(rank, n * kCount);
  Values part(rank, kCount);
  for (int p = 0; p < n; ++p) whole.Put(rank.rank(), p * kCount, kCount);
  ASSERT_TRUE(rank.ReduceScatter(whole.array(), part.array(), ReduceOp::kSum).Wait().ok());
  EXPECT_EQ(part.Differ(0, kCount, 0, factor, more), 0);
  const Array own = whole.array().Slice(rank.rank() * kCount, kCount);
  ASSERT_TRUE(rank.ReduceScatter(whole.array(), own, ReduceOp::kSum).Wait().ok());
  EXPECT_EQ(whole.Differ(rank.rank() * kCount, kCount, 0, factor, more), 0);
  part.Put(rank.rank(), 0, kCount);
  ASSERT_TRUE(rank.AllGather(part.array(), whole.array()).Wait().ok());
  for (int p = 0; p < n; ++p) EXPECT_EQ(whole.Differ(p * kCount, kCount, p, 1, 0), 0);
  ASSERT_TRUE(rank.AllReduce(part.array(), part.array(), ReduceOp::kSum).Wait().ok());
  EXPECT_EQ(part.Differ(0, kCount, 0, factor, more), 0);
  part.Put(rank.rank(), 0, kCount);
  ASSERT_TRUE(rank.Reduce(part.array(), part.array(), ReduceOp::kMax, 1).Wait().ok());
  EXPECT_EQ(part.Differ(0, kCount, rank.rank() == 1 ? n - 1 : rank.rank(), 1, 0), 0);
  ASSERT_TRUE(rank.Broadcast(part.array(), part.array(), 1).Wait().ok());
  EXPECT_EQ(part.Differ(0, kCount, n - 1, 1, 0), 0);
}

TEST_P(CollectiveTest, CarriesLargeCounts) {
  for (const int world_size : {2, 3}) {
    for (const ScheduleChoice schedules : {ScheduleChoice::kDirect, ScheduleChoice::kScatter}) {
      Group group(GetParam(), world_size, {.schedules = schedules});
      group.Run(RunLarge);
    }
  }
}

}  // namespace
}  // namespace zeroshard::comm::testing
