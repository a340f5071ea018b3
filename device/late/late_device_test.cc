#include "zeroshard/device/late/late_device.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device {
namespace {

const auto kExitCode = testing::ExitedWithCode(99);

struct Rig {
  explicit Rig(const LateOptions& options = {}) : device(MakeLateDevice(options)) {
    compute = device->MakeStream(StreamKind::kCompute);
    communication = device->MakeStream(StreamKind::kCommunication);
    x_buffer = device->Allocate(64, Use::kData, "x").value();
    y_buffer = device->Allocate(64, Use::kData, "y").value();
    x = x_buffer.array(DType::kFloat32);
    y = y_buffer.array(DType::kFloat32);
    written = device->MakeEvent();
    read = device->MakeEvent();
  }
  float First(const Array& array, Stream& stream) {
    float value = -1;
    device->CopyToHost(stream, array.Slice(0, 1), &value);
    stream.Synchronize();
    return value;
  }
  Elementwise& kernels() { return device->elementwise(); }

  std::unique_ptr<LateDevice> device;
  Buffer x_buffer, y_buffer;
  Array x, y;
  std::unique_ptr<Event> written, read;
  std::unique_ptr<Stream> compute, communication;
};

class LateOrderTest : public testing::TestWithParam<LateOptions> {};

TEST_P(LateOrderTest, AnOrderedPipelineGivesItsValues) {
  Rig rig(GetParam());
  for (int step = 0; step < 20; ++step) {
    rig.compute->Wait(*rig.read);
    rig.kernels().Fill(*rig.compute, rig.x, step);
    rig.compute->Record(*rig.written);
    rig.communication->Wait(*rig.written);
    rig.kernels().Accumulate(*rig.communication, rig.x, rig.y);
    rig.communication->Record(*rig.read);
  }
  EXPECT_EQ(rig.First(rig.y, *rig.communication), 190);
}

INSTANTIATE_TEST_SUITE_P(Orders, LateOrderTest,
                         testing::Values(LateOptions{.order = LateOrder::kAtOnce}, LateOptions{.order = LateOrder::kLazy},
                                         LateOptions{.order = LateOrder::kOneFirst},
                                         LateOptions{.order = LateOrder::kOneFirst, .first = StreamKind::kCompute},
                                         LateOptions{.order = LateOrder::kRandom, .seed = 1},
                                         LateOptions{.order = LateOrder::kRandom, .seed = 2}));

TEST(LateDevice, RunsNothingBeforeSomebodyWaits) {
  Rig rig;
  int runs = 0;
  int* const counter = &runs;
  HostLaunch(
      *rig.compute, "count", [counter](std::span<float>) { ++*counter; }, Write<float>(rig.x));
  rig.compute->Record(*rig.written);
  HostLaunch(
      *rig.compute, "count", [counter](std::span<float>) { ++*counter; }, Write<float>(rig.x));
  EXPECT_EQ(runs, 0);
  rig.written->Synchronize();
  EXPECT_EQ(runs, 1);
  rig.compute->Synchronize();
  EXPECT_EQ(runs, 2);
}

TEST(LateDevice, RunsOneKindFirst) {
  Rig rig({.order = LateOrder::kOneFirst, .first = StreamKind::kCommunication});
  int ran = 0;
  int* const last = &ran;
  HostLaunch(
      *rig.compute, "one", [last](std::span<float>) { *last = 1; }, Write<float>(rig.x));
  HostLaunch(
      *rig.communication, "two", [last](std::span<float>) { *last = 2; }, Write<float>(rig.y));
  EXPECT_EQ(ran, 2);
}

TEST(LateDevice, AskingWhetherItIsDoneMovesItOn) {
  Rig rig;
  rig.kernels().Fill(*rig.compute, rig.x, 1);
  rig.compute->Record(*rig.written);
  int questions = 0;
  while (!rig.written->Done() && questions < 10) ++questions;
  EXPECT_TRUE(rig.written->Done());
}

TEST(LateDevice, OffersNoHostAddress) {
  Rig rig;
  float mine = 0;
  EXPECT_EQ(rig.device->HostAddress(rig.x), nullptr);
  EXPECT_EQ(rig.device->Adopt(&mine, 4).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(rig.device->ledger().now(Use::kData), 128);
}

TEST(LateDevice, HostMemoryIsTheHosts) {
  Rig rig;
  Buffer host = rig.device->AllocateHost(64, Use::kCommunication, "stage").value();
  static_cast<float*>(rig.device->HostPointer(host))[0] = 5;
  rig.device->CopyFromHost(*rig.compute, rig.device->HostPointer(host), rig.x);
  EXPECT_EQ(rig.First(rig.x, *rig.compute), 5);
}

TEST(LateDevice, RunsProductsLater) {
  Rig rig;
  auto gemm = rig.device->PlanGemm({.m = 4, .k = 4, .n = 4});
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  Buffer c = rig.device->Allocate(64, Use::kData, "c").value();
  rig.kernels().Fill(*rig.compute, rig.x, 2);
  rig.kernels().Fill(*rig.compute, rig.y, 3);
  (*gemm)->Run(*rig.compute, rig.x, rig.y, c.array(DType::kFloat32));
  EXPECT_EQ(rig.First(c.array(DType::kFloat32), *rig.compute), 24);
}

TEST(LateDevice, AThreadThatExpectsHandsOverWhatItKnows) {
  Rig rig;
  rig.First(rig.y, *rig.communication);
  auto done = rig.device->MakeEvent();
  std::thread communicator;
  for (int step = 0; step < 3; ++step) {
    rig.kernels().Fill(*rig.compute, rig.x, step);
    rig.compute->Synchronize();
    done->Expect();
    communicator = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      rig.kernels().Copy(*rig.communication, rig.x, rig.y);
      rig.communication->Record(*done);
    });
    rig.compute->Wait(*done);
    EXPECT_EQ(rig.First(rig.y, *rig.compute), step);
    communicator.join();
  }
}

TEST(LateDevice, CountsOnlyWaitsThatOrderSomething) {
  Rig rig;
  rig.communication->Wait(*rig.written);
  rig.kernels().Fill(*rig.compute, rig.x, 1);
  rig.compute->Record(*rig.written);
  rig.compute->Wait(*rig.written);
  rig.communication->Wait(*rig.written);
  rig.communication->Wait(*rig.written);
  const std::vector<WaitPoint> waits = rig.device->waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].stream, 1);
  EXPECT_EQ(waits[0].index, 0);
}

TEST(LateDeviceDeathTest, HostCodeThatTouchesAnAddressDies) {
  Rig rig;
  EXPECT_DEATH(*reinterpret_cast<volatile float*>(rig.x.address()) = 1, "");
}

TEST(LateDeviceDeathTest, AWriteWithoutWaitForAReadEndsInEveryOrder) {
  for (LateOrder order : {LateOrder::kAtOnce, LateOrder::kLazy, LateOrder::kOneFirst, LateOrder::kRandom}) {
    const auto race = [&] {
      Rig rig({.order = order});
      rig.kernels().Copy(*rig.communication, rig.x, rig.y);
      rig.kernels().Fill(*rig.compute, rig.x.Slice(3, 1), 1);
    };
    EXPECT_EXIT(race(), kExitCode, "race on \"x\": \"fill\".*writes bytes .12, 16.*\"copy\".*reads.*nothing orders them");
  }
}

TEST(LateDeviceDeathTest, AHostCopyWithoutWaitEnds) {
  const auto race = [] {
    Rig rig;
    float value = 0;
    rig.kernels().Fill(*rig.compute, rig.x, 1);
    rig.device->CopyToHost(*rig.communication, rig.x, &value);
  };
  EXPECT_EXIT(race(), kExitCode, "\"copy to host\"");
}

TEST(LateDeviceDeathTest, NeighboursAndReadersDoNotRace) {
  Rig rig;
  rig.kernels().Fill(*rig.compute, rig.x.Slice(0, 8), 1);
  rig.kernels().Fill(*rig.communication, rig.x.Slice(8, 8), 1);
  rig.compute->Synchronize();
  rig.communication->Synchronize();
  float a = 0, b = 0;
  rig.device->CopyToHost(*rig.compute, rig.x.Slice(0, 1), &a);
  rig.device->CopyToHost(*rig.communication, rig.x.Slice(0, 1), &b);
  rig.communication->Synchronize();
}

TEST(LateDeviceDeathTest, EachWaitOfAPipelineIsMissed) {
  const auto pipeline = [](LateDevice& device) {
    auto compute = device.MakeStream(StreamKind::kCompute), other = device.MakeStream(StreamKind::kCommunication);
    Buffer x = device.Allocate(64, Use::kData, "x").value(), y = device.Allocate(64, Use::kData, "y").value();
    auto ready = device.MakeEvent(), released = device.MakeEvent();
    for (int i = 0; i < 3; ++i) {
      compute->Wait(*released);
      device.elementwise().Fill(*compute, x.array(DType::kFloat32), i);
      compute->Record(*ready);
      other->Wait(*ready);
      device.elementwise().Accumulate(*other, x.array(DType::kFloat32), y.array(DType::kFloat32));
      other->Record(*released);
    }
    other->Synchronize();
  };
  auto whole = MakeLateDevice();
  pipeline(*whole);
  ASSERT_EQ(whole->waits().size(), 5u);
  for (const WaitPoint& point : whole->waits()) {
    const auto broken = [&] {
      auto device = MakeLateDevice();
      device->LeaveOutWait(point);
      pipeline(*device);
    };
    EXPECT_EXIT(broken(), kExitCode, "race on \"x\"") << point.stream << ", " << point.index;
  }
}

TEST(LateDeviceDeathTest, AMissingWaitForTheCommunicatorsThreadIsSeenWhateverRanFirst) {
  for (const int late_ms : {0, 30}) {
    const auto race = [&] {
      Rig rig;
      auto done = rig.device->MakeEvent();
      done->Expect();
      std::thread communicator([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30 - late_ms));
        rig.kernels().Fill(*rig.communication, rig.x, 1);
        rig.communication->Record(*done);
        rig.communication->Synchronize();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(late_ms));
      rig.kernels().Fill(*rig.compute, rig.x, 2);
      communicator.join();
    };
    EXPECT_EXIT(race(), kExitCode, "race on \"x\"");
  }
}

TEST(LateDeviceDeathTest, AccessPastTheEndEnds) {
  Rig rig;
  const Array past(rig.x.address() + 32, 16, DType::kFloat32);
  EXPECT_EXIT(rig.kernels().Fill(*rig.compute, past, 1), kExitCode, "uses bytes .32, 96. of \"x\", which has 64");
  EXPECT_EXIT(rig.kernels().Fill(*rig.compute, Array(4096, 1, DType::kFloat32), 1), kExitCode, "no device memory");
}

TEST(LateDeviceDeathTest, UseAfterDropEnds) {
  Rig rig;
  const auto use = [&] {
    rig.x_buffer = Buffer();
    rig.kernels().Fill(*rig.compute, rig.x, 1);
  };
  EXPECT_EXIT(use(), kExitCode, "memory of \"x\", which was dropped");
}

TEST(LateDeviceDeathTest, DropWhileQueuedEnds) {
  Rig rig;
  const auto drop = [&] {
    rig.kernels().Fill(*rig.compute, rig.x, 1);
    rig.x_buffer = Buffer();
  };
  EXPECT_EXIT(drop(), kExitCode, "\"x\" is dropped while \"fill\" that uses it is queued");
}

}  // namespace
}  // namespace zeroshard::device
