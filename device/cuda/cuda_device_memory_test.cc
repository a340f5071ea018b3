// The memory of device/cuda on the doubles: the card's, and pinned.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/device/cuda/cuda_device.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<CudaDevice> Make(const CudaDeviceOptions& options = {.piece_bytes = 0}) {
  auto device = MakeCudaDevice(options);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

float First(Device& device, Stream& stream, const Array& array) {
  float value = -1;
  device.CopyToHost(stream, array.As(DType::kFloat32).Slice(0, 1), &value);
  stream.Synchronize();
  return value;
}

TEST(CudaDeviceMemory, IsAlignedZeroedAndFiled) {
  for (const int64_t piece_bytes : {int64_t{0}, int64_t{64} << 20}) {
    auto device = Make({.piece_bytes = piece_bytes});
    auto stream = device->MakeStream(StreamKind::kCompute);
    for (const int64_t bytes : {4, 256, 100'000, 80 << 20}) {
      auto buffer = device->Allocate(bytes, Use::kMoments, "moments");
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      EXPECT_EQ(buffer->array(DType::kUint8).address() % kAlignmentBytes, 0u);
      EXPECT_EQ(device->ledger().now(Use::kMoments), bytes);
      EXPECT_EQ(First(*device, *stream, buffer->array(DType::kFloat32)), 0);
      // So that the next one finds it used.
      device->elementwise().Fill(*stream, buffer->array(DType::kFloat32), 7);
      stream->Synchronize();
    }
    EXPECT_EQ(device->ledger().now(Use::kMoments), 0);
    EXPECT_EQ(device->ledger().peak(Use::kMoments), 80 << 20);
    EXPECT_TRUE(device->status().ok()) << device->status();
  }
}

TEST(CudaDeviceMemory, ComesFromFewPieces) {
  auto device = Make({.piece_bytes = 1 << 20});
  const int64_t before = device->UsedBytes();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 100; ++i) buffers.push_back(device->Allocate(1000, Use::kData, "data").value());
  EXPECT_EQ(device->UsedBytes(), before);
  buffers.clear();
  const Buffer all = device->Allocate((1 << 20) - 64 * 1024, Use::kData, "what was given back, joined").value();
  EXPECT_EQ(device->UsedBytes(), before);
}

TEST(CudaDeviceMemory, OfTheCardIsToldBesideTheLedger) {
  constexpr int64_t kPiece = 1 << 20;
  auto device = Make({.piece_bytes = kPiece});
  const CardMemory before = device->card_memory().value();
  const Buffer data = device->Allocate(1000, Use::kData, "data").value();
  const Buffer stage = device->AllocateHost(5000, Use::kData, "no memory of the card's").value();
  const CardMemory now = device->card_memory().value();
  EXPECT_EQ(now.granularity_bytes, before.granularity_bytes - 1000);
  EXPECT_EQ(now.vendor_bytes, before.vendor_bytes);
  {
    const Buffer large = device->Allocate(3 * kPiece, Use::kData, "a piece of its own").value();
    EXPECT_EQ(device->card_memory()->peak_bytes, before.peak_bytes + 3 * kPiece);
    EXPECT_EQ(device->card_memory()->granularity_bytes, now.granularity_bytes);
  }
  // The piece stays.
  EXPECT_EQ(device->card_memory()->granularity_bytes, now.granularity_bytes + 3 * kPiece);
  void* other = nullptr;
  ASSERT_EQ(cudaMalloc(&other, 7000), cudaSuccess);
  EXPECT_EQ(device->card_memory()->vendor_bytes, now.vendor_bytes + 7000);
  cudaFree(other);
  EXPECT_FALSE(device->host().card_memory().has_value());
}

TEST(CudaDeviceMemory, OfAPlansFirstRunIsGivenBack) {
  auto device = Make({.piece_bytes = 1 << 20});
  ASSERT_TRUE(device->PlanGemm({.m = 8, .k = 8, .n = 8}).ok());  // The vendor's workspace stays.
  const int64_t used = device->UsedBytes(), calls = doubles::ResourceCalls();
  const GemmSpec spec{.m = 1024, .k = 16, .n = 1024, .transpose_b = true, .bias = true, .input = DType::kBfloat16};
  ASSERT_TRUE(device->PlanGemm(spec).ok());
  EXPECT_GT(doubles::ResourceCalls(), calls);
  EXPECT_EQ(device->UsedBytes(), used);
  const std::string choices = device->ProductChoices();
  ASSERT_TRUE(device->TakeProductChoices(choices).ok());
  EXPECT_EQ(device->UsedBytes(), used);
}

TEST(CudaDeviceMemory, NoBytesGiveAnEmptyValidBuffer) {
  auto device = Make();
  auto buffer = device->Allocate(0, Use::kData, "nothing");
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_TRUE(static_cast<bool>(*buffer));
  auto stream = device->MakeStream(StreamKind::kCompute);
  device->elementwise().Fill(*stream, buffer->array(DType::kFloat32), 1);
  device->CopyToHost(*stream, buffer->array(DType::kFloat32), nullptr);
  EXPECT_TRUE(device->status().ok()) << device->status();
}

TEST(CudaDeviceMemory, TooMuchIsRefusedWithTheTable) {
  doubles::SetMemory(1 << 20);
  auto device = Make();
  const absl::Status status = device->Allocate(2 << 20, Use::kMoments, "the moments").status();
  doubles::SetMemory(int64_t{8} << 30);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("the moments: the GPU has no 2097152 bytes"),
                                                   HasSubstr("of its 1048576 are free"), HasSubstr("master_weights")));
  EXPECT_TRUE(device->status().ok()) << device->status();
  EXPECT_EQ(device->Allocate(-1, Use::kData, "x").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CudaDeviceMemory, OfTheHostIsPinnedAndHasALedgerOfItsOwn) {
  auto device = Make();
  auto up = device->MakeStream(StreamKind::kCopyUp);
  const Buffer x = device->Allocate(4096, Use::kData, "x").value();
  const Buffer moments = device->host().Allocate(4096, Use::kMoments, "offloaded moments").value();
  EXPECT_EQ(device->ledger().now(Use::kMoments), 0);
  EXPECT_EQ(device->host().ledger().now(Use::kMoments), 4096);
  auto* values = static_cast<float*>(device->host().HostAddress(moments.array(DType::kUint8)));
  ASSERT_NE(values, nullptr);
  values[0] = 5;
  device->CopyFromHost(*up, values, x.array(DType::kFloat32));
  EXPECT_EQ(First(*device, *up, x.array(DType::kFloat32)), 5);
  EXPECT_TRUE(doubles::IsPinned(values));
  const Buffer stage = device->AllocateHost(64, Use::kData, "stage").value();
  EXPECT_EQ(device->ledger().now(Use::kData), 4096 + 64);
  EXPECT_TRUE(doubles::IsPinned(device->HostPointer(stage)));
}

TEST(CudaDeviceMemory, OfTheHostIsPinnedInFewPiecesThatAreGivenBack) {
  constexpr int64_t kPiece = int64_t{2} << 20;
  auto device = Make();
  Device& host = device->host();
  const int64_t none = device->card_memory()->pinned_granularity_bytes;
  EXPECT_EQ(none, 0);
  EXPECT_EQ(doubles::PinnedPieces(), 0);
  {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 100; ++i) {
      buffers.push_back(
          (i % 2 == 0 ? device->AllocateHost(5000, Use::kData, "stage") : host.Allocate(5000, Use::kData, "state")).value());
      const auto* bytes = static_cast<const char*>(device->HostPointer(buffers.back()));
      EXPECT_EQ(reinterpret_cast<uint64_t>(bytes) % 4096, 0u);
      EXPECT_TRUE(doubles::IsPinned(bytes));
      EXPECT_TRUE(doubles::IsPinned(bytes + 4999));
    }
    EXPECT_EQ(doubles::PinnedPieces(), 2);
    EXPECT_EQ(device->card_memory()->pinned_granularity_bytes, 2 * kPiece - 100 * 5000);
    // Of its own, and no byte more than pages.
    const Buffer large = host.Allocate(3 * kPiece + 1, Use::kMoments, "moments").value();
    EXPECT_EQ(doubles::PinnedPieces(), 3);
    EXPECT_EQ(device->card_memory()->pinned_granularity_bytes, 2 * kPiece - 100 * 5000 + 4095);
    EXPECT_EQ(host.ledger().now(Use::kMoments), 3 * kPiece + 1);
    // What is used again is zero again.
    std::memset(device->HostPointer(buffers[2]), 7, 5000);
    buffers.erase(buffers.begin() + 2);
    buffers.push_back(device->AllocateHost(5000, Use::kData, "stage").value());
    EXPECT_EQ(static_cast<const char*>(device->HostPointer(buffers.back()))[17], 0);
    EXPECT_EQ(doubles::PinnedPieces(), 3);
  }
  EXPECT_EQ(doubles::PinnedPieces(), 0);
  EXPECT_EQ(device->card_memory()->pinned_granularity_bytes, 0);
}

TEST(CudaDeviceMemory, AdoptsItsOwnAlone) {
  auto device = Make(), other = Make({.ordinal = 1, .piece_bytes = 0});
  const Buffer mine = device->Allocate(64, Use::kData, "x").value();
  void* address = reinterpret_cast<void*>(mine.array(DType::kUint8).address());
  EXPECT_EQ(device->Adopt(address, 64).value(), mine.array(DType::kUint8));
  EXPECT_EQ(device->HostAddress(mine.array(DType::kUint8)), nullptr);
  float value = 0;
  EXPECT_EQ(device->Adopt(&value, 4).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(other->Adopt(address, 64).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace zeroshard::device::cuda
