// Where NCCL's memory lies, and that it comes in few pieces.
#include "zeroshard/backends/nccl/registered_memory.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/doubles/nccl_control.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"

namespace zeroshard::backends {
namespace {

using device::DType;
using device::Use;
using doubles::NcclPieces;
using doubles::NcclRegistrations;
using testing::NcclGroup;

constexpr int64_t kPiece = int64_t{1} << 20;
const NcclOptions kOptions = {.timeout = absl::Seconds(30), .scratch_bytes = kPiece};

device::Buffer Get(comm::Communicator& rank, int64_t bytes) { return rank.Allocate(bytes, Use::kParameters, "x").value(); }

// That all ranks do at once; else a count would be of some ranks' memory before another's is there.
void Meet(comm::Communicator& rank) { ASSERT_TRUE(rank.Barrier().Wait().ok()); }

void ExpectSums(comm::Communicator& rank, const device::Buffer& buffer) {
  const auto stream = rank.device().MakeStream(device::StreamKind::kCompute);
  const device::Array x = buffer.array(DType::kFloat32).Slice(0, 10);
  const auto ready = rank.device().MakeEvent();
  rank.device().elementwise().Fill(*stream, x, rank.rank() + 1);
  stream->Record(*ready);
  rank.AllReduce(x, x, comm::ReduceOp::kSum, {.after = {ready.get()}}).WaitOn(*stream);
  float sum = 0;
  rank.device().CopyToHost(*stream, x.Slice(9, 1), &sum);
  stream->Synchronize();
  EXPECT_EQ(sum, 3);
  EXPECT_TRUE(rank.status().ok()) << rank.status();
}

TEST(RegisteredMemory, OfManyBuffersIsInOnePiece) {
  const int64_t nothing = NcclPieces();
  {
    NcclGroup group(2, kOptions, kPiece);
    EXPECT_EQ(NcclPieces(), nothing + 2);  // The scratch of each.
    group.Run([&](comm::Communicator& rank) {
      std::vector<device::Buffer> buffers;
      for (int i = 0; i < 50; ++i) buffers.push_back(Get(rank, 10'000 + i));
      Meet(rank);
      EXPECT_EQ(NcclPieces(), nothing + 4);
      EXPECT_EQ(NcclRegistrations(), 4);
      for (const device::Buffer& buffer : buffers) {
        EXPECT_EQ(buffer.array(DType::kUint8).address() % device::kAlignmentBytes, 0u);
        ExpectSums(rank, buffer);
      }
      // A large one has a piece of its own.
      const device::Buffer large = Get(rank, 3 * kPiece);
      Meet(rank);
      EXPECT_EQ(NcclPieces(), nothing + 6);
      ExpectSums(rank, large);
      Meet(rank);
    });
    EXPECT_EQ(NcclPieces(), nothing + 2) << "empty pieces are given back";
    EXPECT_EQ(NcclRegistrations(), 2);
  }
  EXPECT_EQ(NcclPieces(), nothing);
}

TEST(RegisteredMemory, IsZeroedAgainAndFiledToTheByte) {
  NcclGroup group(2, kOptions, kPiece);
  group.Run([](comm::Communicator& rank) {
    device::Device& device = rank.device();
    const device::CardMemory before = *device.card_memory();
    const device::Buffer stays = Get(rank, 1000);
    for (int i = 0; i < 2; ++i) {
      const device::Buffer buffer = Get(rank, 5000);
      EXPECT_EQ(device.ledger().now(Use::kParameters), 6000);
      const device::CardMemory now = *device.card_memory();
      EXPECT_EQ(now.granularity_bytes, before.granularity_bytes + kPiece - 6000);
      EXPECT_EQ(now.vendor_bytes, before.vendor_bytes);
      const auto stream = device.MakeStream(device::StreamKind::kCompute);
      float value = -1;
      device.CopyToHost(*stream, buffer.array(DType::kFloat32).Slice(1000, 1), &value);
      stream->Synchronize();
      EXPECT_EQ(value, 0);
      device.elementwise().Fill(*stream, buffer.array(DType::kFloat32), 7);
      stream->Synchronize();
    }
    EXPECT_EQ(device.ledger().now(Use::kParameters), 1000);
  });
}

// Whoever gave back other parts than the others would take its next one elsewhere; the double would end the test.
TEST(RegisteredMemory, LiesAtOnePlaceOnAllRanksWhateverEachGaveBack) {
  const int64_t nothing = NcclPieces();
  NcclGroup group(2, kOptions, kPiece);
  group.Run([&](comm::Communicator& rank) {
    std::optional<device::Buffer> first(Get(rank, 8000));
    std::optional<device::Buffer> second(Get(rank, 8000));
    (rank.rank() == 0 ? first : second).reset();
    const device::Buffer third = Get(rank, 8000);
    Meet(rank);
    EXPECT_EQ(NcclPieces(), nothing + 6) << "a new piece, where no place is free on all";
    ExpectSums(rank, third);
    first.reset();
    second.reset();
    const device::Buffer fourth = Get(rank, 8000);
    ExpectSums(rank, fourth);
    Meet(rank);
    EXPECT_EQ(NcclPieces(), nothing + 4);
    Meet(rank);
  });
}

TEST(RegisteredMemory, OfUnlikeSizesIsNoPartOfAWindow) {
  NcclGroup group(2, kOptions, kPiece);
  group.Run([](comm::Communicator& rank) {
    const device::Buffer unlike = Get(rank, 4000 + 8000 * rank.rank());
    const device::Buffer alike = Get(rank, 4000);
    ExpectSums(rank, unlike);
    ExpectSums(rank, alike);
  });
}

}  // namespace
}  // namespace zeroshard::backends
