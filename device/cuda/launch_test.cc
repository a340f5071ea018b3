#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/cuda/launch_test_kernels.h"

namespace zeroshard::device::cuda {
namespace {

const auto kExitCode = testing::ExitedWithCode(99);

class Rig {
 public:
  explicit Rig(const LateOptions& options = {}) {
    doubles::SetOrder(options);
    EXPECT_EQ(cudaStreamCreateWithPriority(&compute, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithPriority(&communication, cudaStreamNonBlocking, -5), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    x = Upload(std::vector<float>(kElements, 2));
    y = Upload(std::vector<float>(kElements, 1));
  }
  ~Rig() {
    cudaStreamDestroy(compute);
    cudaStreamDestroy(communication);
    cudaEventDestroy(event);
    for (void* address : allocations_) cudaFree(address);
  }

  Array Upload(const std::vector<float>& values) {
    void* address = nullptr;
    EXPECT_EQ(cudaMalloc(&address, 4 * values.size()), cudaSuccess);
    allocations_.push_back(address);
    EXPECT_EQ(cudaMemcpyAsync(address, values.data(), 4 * values.size(), cudaMemcpyHostToDevice, compute), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(compute), cudaSuccess);
    return Array(reinterpret_cast<uint64_t>(address), static_cast<int64_t>(values.size()), DType::kFloat32);
  }
  std::vector<float> Download(const Array& array, cudaStream_t stream) {
    std::vector<float> values(static_cast<size_t>(array.elements()), -1);
    const void* from = reinterpret_cast<const void*>(array.address());
    EXPECT_EQ(cudaMemcpyAsync(values.data(), from, 4 * values.size(), cudaMemcpyDeviceToHost, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return values;
  }

  static constexpr int64_t kElements = 1000;
  cudaStream_t compute = nullptr, communication = nullptr;
  cudaEvent_t event = nullptr;
  Array x, y;

 private:
  std::vector<void*> allocations_;
};

TEST(Launch, RunsEveryThreadOfTheGrid) {
  Rig rig;
  EXPECT_EQ(Axpy(rig.compute, Rig::kElements, 3, rig.x, rig.y), cudaSuccess);
  EXPECT_EQ(rig.Download(rig.y, rig.compute), std::vector<float>(Rig::kElements, 7));
}

TEST(Launch, RunsBlocksByPhases) {
  Rig rig;
  const Array sums = rig.Upload({0, 0, 0, 0});
  EXPECT_EQ(RowSums(rig.compute, 250, rig.x, sums), cudaSuccess);
  EXPECT_EQ(rig.Download(sums, rig.compute), std::vector<float>(4, 500));
}

TEST(Launch, RunsNothingBeforeSomebodyWaits) {
  Rig rig;
  std::vector<float> host(Rig::kElements, -1);
  const void* from = reinterpret_cast<const void*>(rig.y.address());
  EXPECT_EQ(cudaMemcpyAsync(host.data(), from, 4 * host.size(), cudaMemcpyDeviceToHost, rig.compute), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(rig.event, rig.compute), cudaSuccess);
  EXPECT_EQ(host[0], -1);
  EXPECT_EQ(cudaEventSynchronize(rig.event), cudaSuccess);
  EXPECT_EQ(host[0], 1);
}

TEST(Launch, GivesTheDevicesStickyError) {
  Rig rig;
  doubles::BreakDevice(0, cudaErrorIllegalAddress);
  EXPECT_EQ(Axpy(rig.compute, Rig::kElements, 3, rig.x, rig.y), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(rig.compute), cudaErrorIllegalAddress);
  doubles::MendDevices();
}

TEST(LaunchDeathTest, TwoStreamsWithoutAnEventEndInEveryOrder) {
  for (const LateOrder order : {LateOrder::kAtOnce, LateOrder::kLazy, LateOrder::kOneFirst, LateOrder::kRandom}) {
    const auto race = [&](bool with_event) {
      Rig rig({.order = order});
      EXPECT_EQ(Axpy(rig.compute, Rig::kElements, 3, rig.x, rig.y), cudaSuccess);
      EXPECT_EQ(cudaEventRecord(rig.event, rig.compute), cudaSuccess);
      if (with_event) {
        EXPECT_EQ(cudaStreamWaitEvent(rig.communication, rig.event, 0), cudaSuccess);
      }
      EXPECT_EQ(rig.Download(rig.y, rig.communication)[0], 7);
    };
    race(/*with_event=*/true);
    EXPECT_EXIT(race(/*with_event=*/false), kExitCode, "copy to host.*reads.*AxpyKernel.*writes.*nothing orders them");
  }
}

TEST(LaunchDeathTest, AKernelThatLeavesItsMemoryEnds) {
  const auto past = [] {
    Rig rig;
    EXPECT_EQ(Axpy(rig.compute, Rig::kElements + 1, 3, rig.x, rig.y), cudaSuccess);
    rig.Download(rig.y, rig.compute);
  };
  EXPECT_EXIT(past(), kExitCode, "AxpyKernel touches element 1000 of memory declared with 1000");
}

TEST(LaunchDeathTest, HostCodeThatTouchesAnAddressDies) {
  Rig rig;
  EXPECT_DEATH(*reinterpret_cast<volatile float*>(rig.x.address()) = 1, "");
}

TEST(LaunchDeathTest, TheDefaultStreamEnds) {
  Rig rig;
  EXPECT_EXIT(Axpy(nullptr, Rig::kElements, 3, rig.x, rig.y), kExitCode, "AxpyKernel.*default stream");
}

TEST(Doubles, EndTheTestAtACallThatTheyDoNotHave) {
  EXPECT_EXIT(cudaDeviceReset(), kExitCode, "cudaDeviceReset is called, which the doubles do not have");
  EXPECT_EXIT(cublasLtDisableCpuInstructionsSetMask(0), kExitCode, "cublasLtDisableCpuInstructionsSetMask is called");
}

}  // namespace
}  // namespace zeroshard::device::cuda
