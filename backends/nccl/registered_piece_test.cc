// When a piece is given back while its communicator is being aborted, on another thread.
#include "zeroshard/backends/nccl/registered_piece.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/doubles/nccl_control.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"

namespace zeroshard::backends {
namespace {

using doubles::NcclPieces;
using doubles::NcclRegistrations;

constexpr int64_t kBytes = 1 << 16;
constexpr absl::Duration kLong = absl::Seconds(60);

// A registered piece whose communicator is being aborted; NCCL does not come back from that before EndAbort.
class RegisteredPieceTest : public ::testing::Test {
 protected:
  void StartAbort(absl::Duration drop_within) {
    handle_ = std::make_shared<CommHandle>(testing::OneRank());
    auto made = RegisteredPiece::Make(
        {.ledger = &device_->ledger(), .handle = handle_, .thread = thread_, .timeout = kLong, .drop_within = drop_within},
        kBytes);
    ASSERT_TRUE(made.ok()) << made.status();
    piece_ = *std::move(made);
    ASSERT_TRUE(piece_->RegisterWindow().value());
    ASSERT_EQ(NcclRegistrations(), 1);
    doubles::SetNcclAbortHangs(true);
    abort_ = std::thread([this] { EXPECT_TRUE(handle_->Abort(kLong)); });
    while (handle_->Enter()) {
      handle_->Leave();
      std::this_thread::yield();
    }
  }

  void EndAbort() {
    doubles::SetNcclAbortHangs(false);
    abort_.join();
  }

  const std::unique_ptr<device::Device> device_ = testing::DoubleDevice(0);
  const std::shared_ptr<NcclThread> thread_ = std::make_shared<NcclThread>(*device_, [] { cudaSetDevice(0); });
  const int64_t nothing_ = NcclPieces();
  std::shared_ptr<CommHandle> handle_;
  std::shared_ptr<RegisteredPiece> piece_;
  std::thread abort_;
};

// The double ends the test where memory is freed that a communicator still has registered.
TEST_F(RegisteredPieceTest, IsKeptWhereTheAbortDoesNotComeBack) {
  StartAbort(/*drop_within=*/absl::Milliseconds(20));
  piece_.reset();
  EXPECT_EQ(NcclPieces(), nothing_ + 1);
  EndAbort();
}

TEST_F(RegisteredPieceTest, IsFreedByAnotherThreadOnceTheAbortIsThrough) {
  StartAbort(/*drop_within=*/kLong);
  std::thread drop([this] { piece_.reset(); });
  EndAbort();
  drop.join();
  EXPECT_EQ(NcclPieces(), nothing_);
  EXPECT_EQ(NcclRegistrations(), 0);
}

TEST_F(RegisteredPieceTest, MayAwaitAnEndThatDoesNotComeAndOneThatHasCome) {
  StartAbort(/*drop_within=*/kLong);
  EXPECT_FALSE(handle_->AwaitEnd(absl::Milliseconds(1)));
  EndAbort();
  EXPECT_TRUE(handle_->AwaitEnd(absl::ZeroDuration()));
  piece_.reset();
  EXPECT_EQ(NcclPieces(), nothing_);
}

}  // namespace
}  // namespace zeroshard::backends
