#include "zeroshard/device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

TEST(CpuDeviceMemory, IsAlignedZeroedAndFiled) {
  auto device = MakeCpuDevice();
  for (int64_t bytes : {1, 255, 4096, 100000, 5 << 20}) {
    auto buffer = device->Allocate(bytes, Use::kMoments, "moments");
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    const Array array = buffer->array(DType::kUint8);
    EXPECT_EQ(array.address() % kAlignmentBytes, 0u);
    EXPECT_EQ(array.elements(), bytes);
    EXPECT_EQ(device->ledger().now(Use::kMoments), bytes);
    const auto* data = static_cast<const uint8_t*>(device->HostAddress(array));
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], 0) << i;
  }
  EXPECT_EQ(device->ledger().now(Use::kMoments), 0);
  EXPECT_EQ(device->ledger().peak(Use::kMoments), 5 << 20);
}

TEST(CpuDeviceMemory, IsTouchedOnceAtStart) {
  auto device = MakeCpuDevice();
  const Buffer buffer = device->Allocate(16 << 20, Use::kData, "data").value();
  std::vector<unsigned char> resident(static_cast<size_t>(buffer.bytes()) / 4096);
  ASSERT_EQ(mincore(device->HostAddress(buffer.array(DType::kUint8)), buffer.bytes(), resident.data()), 0);
  for (size_t page = 0; page < resident.size(); ++page) ASSERT_TRUE(resident[page] & 1) << page;
}

TEST(CpuDeviceMemory, NoBytesGiveAnEmptyValidBuffer) {
  auto device = MakeCpuDevice();
  auto buffer = device->Allocate(0, Use::kData, "nothing");
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_TRUE(static_cast<bool>(*buffer));
  EXPECT_TRUE(buffer->array(DType::kFloat32).empty());
  auto stream = device->MakeStream(StreamKind::kCompute);
  device->elementwise().Fill(*stream, buffer->array(DType::kFloat32), 1);
  device->CopyToHost(*stream, buffer->array(DType::kFloat32), nullptr);
}

TEST(CpuDeviceMemory, OfTheHostHasALedgerOfItsOwn) {
  auto device = MakeCpuDevice();
  const Buffer moments = device->host().Allocate(4096, Use::kMoments, "offloaded moments").value();
  EXPECT_EQ(device->ledger().now(Use::kMoments), 0);
  EXPECT_EQ(device->host().ledger().now(Use::kMoments), 4096);
  EXPECT_NE(device->host().HostAddress(moments.array(DType::kUint8)), nullptr);
  EXPECT_EQ(&device->host(), &device->host());
}

TEST(CpuDeviceMemory, TooMuchIsRefusedWithTheTable) {
  auto device = MakeCpuDevice();
  for (int64_t bytes : {int64_t{1} << 45, INT64_MAX}) {
    const absl::Status status = device->Allocate(bytes, Use::kMoments, "the moments").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_NE(std::string(status.message()).find("the moments"), std::string::npos);
    EXPECT_NE(std::string(status.message()).find("master_weights"), std::string::npos);
  }
  EXPECT_EQ(device->Allocate(-1, Use::kData, "x").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuDeviceMemory, AdoptedMemoryIsTheCallers) {
  auto device = MakeCpuDevice();
  std::vector<float> mine(8, 1.0f);
  const Array array = device->Adopt(mine.data(), 32).value().As(DType::kFloat32);
  auto stream = device->MakeStream(StreamKind::kCompute);
  device->elementwise().Scale(*stream, array, 3);
  EXPECT_EQ(mine[7], 3.0f);
  EXPECT_EQ(device->HostAddress(array), mine.data());
}

TEST(CpuDevice, CopiesThereAndBack) {
  auto device = MakeCpuDevice();
  auto stream = device->MakeStream(StreamKind::kCopyUp);
  auto buffer = device->Allocate(12, Use::kData, "data").value();
  const float from[] = {1, 2, 3};
  float to[3] = {};
  device->CopyFromHost(*stream, from, buffer.array(DType::kFloat32));
  device->CopyToHost(*stream, buffer.array(DType::kFloat32).Slice(1, 2), to);
  stream->Synchronize();
  EXPECT_EQ(to[0], 2);
  EXPECT_EQ(to[1], 3);
}

TEST(CpuEvent, NeverRecordedIsDone) {
  auto device = MakeCpuDevice();
  auto event = device->MakeEvent();
  EXPECT_TRUE(event->Done());
  event->Synchronize();
  device->MakeStream(StreamKind::kCompute)->Wait(*event);
}

TEST(CpuEvent, ExpectedHoldsTheWaiterUntilTheRecord) {
  auto device = MakeCpuDevice();
  auto compute = device->MakeStream(StreamKind::kCompute), other = device->MakeStream(StreamKind::kCommunication);
  auto event = device->MakeEvent();
  for (int sleep_ms : {0, 20}) {
    event->Expect();
    EXPECT_FALSE(event->Done());
    std::atomic<bool> recorded{false};
    std::thread recorder([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
      recorded = true;
      other->Record(*event);
    });
    compute->Wait(*event);
    EXPECT_TRUE(recorded);
    EXPECT_TRUE(event->Done());
    recorder.join();
  }
}

TEST(CpuEvent, PassesManyTimesBetweenTwoThreads) {
  constexpr int kRounds = 20000;
  auto device = MakeCpuDevice();
  auto mine = device->MakeStream(StreamKind::kCompute), theirs = device->MakeStream(StreamKind::kCommunication);
  auto ping = device->MakeEvent(), pong = device->MakeEvent();
  int64_t value = 0;
  ping->Expect();
  pong->Expect();
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      theirs->Wait(*ping);
      ++value;
      ping->Expect();
      theirs->Record(*pong);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ++value;
    mine->Record(*ping);
    mine->Wait(*pong);
    pong->Expect();
  }
  other.join();
  EXPECT_EQ(value, 2 * kRounds);
}

TEST(CpuEvent, ASleepingWaiterBurnsNoCore) {
  auto device = MakeCpuDevice();
  auto stream = device->MakeStream(StreamKind::kCompute);
  auto event = device->MakeEvent();
  event->Expect();
  std::thread recorder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stream->Record(*event);
  });
  timespec before{}, after{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  event->Synchronize();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  recorder.join();
  const double used_ms = (after.tv_sec - before.tv_sec) * 1e3 + (after.tv_nsec - before.tv_nsec) * 1e-6;
  EXPECT_LT(used_ms, 20);
}

}  // namespace
}  // namespace zeroshard::device
