// device/cuda on the doubles: what is the device's own. Its kernels, products and attention have tests beside them.
#include "zeroshard/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/doubles/control.h"

namespace zeroshard::device::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const auto kExitCode = ::testing::ExitedWithCode(99);

std::unique_ptr<CudaDevice> Make(const LateOptions& order = {}, const CudaDeviceOptions& options = {.piece_bytes = 0}) {
  doubles::SetOrder(order);
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

TEST(CudaDevicePeak, IsTheDataSheetsOrReckonedFromTheClock) {
  const Gpu h100{.name = "NVIDIA H100 80GB HBM3", .architecture = "sm_90", .multiprocessors = 132, .clock_hz = 1.98e9};
  EXPECT_EQ(DensePeakFlops(h100, DType::kBfloat16), 989.4e12);
  EXPECT_EQ(DensePeakFlops(h100, DType::kFloat32), 256 * 132 * 1.98e9);
  EXPECT_EQ(DensePeakFlops({.name = "NVIDIA H100 PCIe", .architecture = "sm_90"}, DType::kFloat16), 756e12);
  EXPECT_EQ(
      DensePeakFlops({.name = "new", .architecture = "sm_100", .multiprocessors = 10, .clock_hz = 1e9}, DType::kFloat16),
      8192 * 10 * 1e9);
  EXPECT_EQ(DensePeakFlops({.name = "newer", .architecture = "sm_999"}, DType::kFloat16), 0);
  EXPECT_GT(Make()->PeakFlops(DType::kBfloat16), 1e14);
}

class CudaDeviceOrder : public ::testing::TestWithParam<LateOrder> {};

TEST_P(CudaDeviceOrder, AnOrderedPipelineGivesItsValues) {
  auto device = Make({.order = GetParam()});
  auto compute = device->MakeStream(StreamKind::kCompute), communication = device->MakeStream(StreamKind::kCommunication);
  auto written = device->MakeEvent(), read = device->MakeEvent();
  const Buffer x = device->Allocate(64, Use::kData, "x").value(), y = device->Allocate(64, Use::kData, "y").value();
  for (int step = 1; step <= 20; ++step) {
    compute->Wait(*read);
    device->elementwise().Fill(*compute, x.array(DType::kFloat32), step);
    compute->Record(*written);
    communication->Wait(*written);
    device->elementwise().Accumulate(*communication, x.array(DType::kFloat32), y.array(DType::kFloat32));
    communication->Record(*read);
  }
  EXPECT_EQ(First(*device, *communication, y.array(DType::kFloat32)), 210);
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaDeviceOrder,
                         ::testing::Values(LateOrder::kAtOnce, LateOrder::kLazy, LateOrder::kOneFirst, LateOrder::kRandom));

TEST(CudaDeviceEvents, HoldWhoeverWaitsForWhatIsExpected) {
  auto device = Make();
  auto compute = device->MakeStream(StreamKind::kCompute), communication = device->MakeStream(StreamKind::kCommunication);
  const Buffer x = device->Allocate(64, Use::kData, "x").value();
  auto done = device->MakeEvent();
  EXPECT_TRUE(done->Done());
  done->Expect();
  EXPECT_FALSE(done->Done());
  std::thread communicator([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    device->elementwise().Fill(*communication, x.array(DType::kFloat32), 3);
    communication->Record(*done);
  });
  compute->Wait(*done);
  EXPECT_EQ(First(*device, *compute, x.array(DType::kFloat32)), 3);
  EXPECT_TRUE(done->Done());
  communicator.join();
}

TEST(CudaDeviceEvents, KeepTheirTimesWhileTheRecorderTraces) {
  auto device = Make();
  auto compute = device->MakeStream(StreamKind::kCompute);
  auto done = device->MakeEvent();
  compute->Record(*done);
  done->Synchronize();
  EXPECT_EQ(done->recorded_ns(), 0);
  device->recorder().Turn(Recorder::Mode::kTrace);
  compute->Record(*done);
  EXPECT_EQ(done->recorded_ns(), 0);
  done->Synchronize();
  EXPECT_GT(done->recorded_ns(), 0);
}

TEST(CudaDeviceErrors, AStickyErrorIsTheDevicesStatus) {
  auto device = Make();
  auto stream = device->MakeStream(StreamKind::kCompute);
  const Buffer x = device->Allocate(64, Use::kData, "x").value();
  doubles::BreakDevice(0, cudaErrorIllegalAddress);
  device->elementwise().Fill(*stream, x.array(DType::kFloat32), 1);
  stream->Synchronize();
  doubles::MendDevices();
  EXPECT_EQ(device->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(device->status().message()),
              AllOf(StartsWith("device 0 (double of a GPU): "), HasSubstr("an illegal memory access was encountered")));
}

std::string Refusal(const CudaDeviceOptions& options = {}) {
  const auto device = MakeCudaDevice(options);
  EXPECT_FALSE(device.ok());
  return std::string(device.status().message());
}

TEST(CudaDeviceErrors, SayWhyThereIsNoGpu) {
  doubles::SetDriverVersion(0);
  EXPECT_THAT(Refusal(), StartsWith("no NVIDIA driver: install one for CUDA "));
  doubles::SetDriverVersion(12020);
  EXPECT_THAT(Refusal(), StartsWith("the NVIDIA driver is too old: it has CUDA 12.2, this program needs 13.0"));
  doubles::SetDriverVersion(CUDART_VERSION);
  doubles::SetDevices(0);
  EXPECT_THAT(Refusal(), StartsWith("no GPU: the NVIDIA driver shows none"));
  doubles::SetDevices(8);
  EXPECT_THAT(Refusal({.ordinal = 8}), HasSubstr("8 GPUs are visible"));
  doubles::FailKernels(cudaErrorNoKernelImageForDevice);
  EXPECT_THAT(Refusal(),
              AllOf(StartsWith("no kernel image for double of a GPU (sm_90)"), HasSubstr("sm_80, sm_90, sm_100, sm_120")));
  doubles::FailKernels(cudaSuccess);
}

TEST(CudaDeviceDeathTest, AnUnorderedCopyToTheHostEnds) {
  const auto race = [] {
    auto device = Make();
    auto compute = device->MakeStream(StreamKind::kCompute), down = device->MakeStream(StreamKind::kCopyDown);
    const Buffer x = device->Allocate(64, Use::kData, "x").value();
    device->elementwise().Fill(*compute, x.array(DType::kFloat32), 1);
    First(*device, *down, x.array(DType::kFloat32));
  };
  EXPECT_EXIT(race(), kExitCode, "copy to host.*reads.*nothing orders them");
}

// Our kernels are loaded when the device is made; a product's is when it is planned, which is then too late.
TEST(CudaDeviceDeathTest, APlanWhileACollectiveIsUnderWayEnds) {
  const auto late = [] {
    auto device = Make();
    auto compute = device->MakeStream(StreamKind::kCompute), communication = device->MakeStream(StreamKind::kCommunication);
    const Buffer x = device->Allocate(64, Use::kData, "x").value();
    doubles::EnqueuePolled(CudaStream::Of(*communication).native(), "nccl", {}, [](const AddressMap&) { return false; });
    device->elementwise().Fill(*compute, x.array(DType::kFloat32), 1);
    compute->Synchronize();
    EXPECT_TRUE(device->PlanGemm({.m = 4, .k = 8, .n = 2}).ok());
  };
  EXPECT_EXIT(late(), kExitCode, "cublasLtMatmul: an algorithm is first used, and loaded, while a collective is under way");
}

// What another thread learned counts for nobody else, until an event that it expects hands it over.
TEST(CudaDeviceDeathTest, AMissingWaitForTheCommunicatorsThreadEnds) {
  const auto race = [] {
    auto device = Make();
    auto compute = device->MakeStream(StreamKind::kCompute), communication = device->MakeStream(StreamKind::kCommunication);
    const Buffer x = device->Allocate(64, Use::kData, "x").value();
    auto done = device->MakeEvent();
    done->Expect();
    std::thread communicator([&] {
      device->elementwise().Fill(*communication, x.array(DType::kFloat32), 1);
      communication->Record(*done);
      communication->Synchronize();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    device->elementwise().Fill(*compute, x.array(DType::kFloat32), 2);
    communicator.join();
  };
  EXPECT_EXIT(race(), kExitCode, "nothing orders them");
}

}  // namespace
}  // namespace zeroshard::device::cuda
