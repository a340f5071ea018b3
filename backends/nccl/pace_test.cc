#include "zeroshard/backends/nccl/pace.h"

#include <atomic>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/doubles/control.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

// Each window but the first begins with the end of the one before.
constexpr int kMost = Pace::kWindow * static_cast<int>(Pace::kWindows) - static_cast<int>(Pace::kWindows - 1);

// A stream that does not go on before it is told to.
class PaceTest : public ::testing::Test {
 protected:
  PaceTest() {
    handle_ = std::make_unique<CommHandle>(testing::OneRank());
    device::cuda::doubles::EnqueuePolled(device::cuda::CudaStream::Of(*stream_).native(), "held", {},
                                         [this](const device::AddressMap&) { return goes_on_.load(); });
  }
  ~PaceTest() override {
    EXPECT_TRUE(handle_->Destroy().ok());
    goes_on_ = true;
    stream_->Synchronize();
  }

  // As many as it is let, until `most`; what the last one was told.
  absl::Status TakeOnes(int most) {
    Pace pace(*stream_, *handle_);
    while (taken_ < most) {
      ZS_RETURN_IF_ERROR(pace.Take(1));
      const bool early = !goes_on_;
      EXPECT_FALSE(++taken_ > kMost && early);
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<device::Device> device_ = testing::DoubleDevice(0);
  const std::unique_ptr<device::Stream> stream_ = device_->MakeStream(device::StreamKind::kCommunication);
  std::unique_ptr<CommHandle> handle_;
  std::atomic<bool> goes_on_{false};
  std::atomic<int> taken_{0};
};

TEST_F(PaceTest, WaitsWhereTheDeviceDoesNotGoOn) {
  std::thread taking([this] { EXPECT_TRUE(TakeOnes(3 * kMost).ok()); });
  while (taken_ < kMost) std::this_thread::yield();
  goes_on_ = true;
  taking.join();
  EXPECT_EQ(taken_, 3 * kMost);
}

TEST_F(PaceTest, HearsOfAnAbortMeanwhile) {
  std::thread taking([this] { EXPECT_TRUE(absl::IsCancelled(TakeOnes(3 * kMost))); });
  while (taken_ < kMost) std::this_thread::yield();
  EXPECT_TRUE(handle_->Abort(absl::Seconds(60)));
  taking.join();
  EXPECT_EQ(taken_, kMost);
}

}  // namespace
}  // namespace zeroshard::backends
