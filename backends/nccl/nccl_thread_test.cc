#include "zeroshard/backends/nccl/nccl_thread.h"

#include <future>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

TEST(NcclThread, RunsCallsOnOneThreadInTheirOrder) {
  const auto device = device::MakeCpuDevice();
  std::thread::id begun, first, second;
  NcclThread thread(*device, [&] { begun = std::this_thread::get_id(); });
  const auto note = [](std::thread::id& id) {
    return [&id] {
      id = std::this_thread::get_id();
      return absl::OkStatus();
    };
  };
  EXPECT_TRUE(thread.Call("first", note(first), kLong).ok());
  EXPECT_TRUE(thread.Call("second", note(second), kLong).ok());
  EXPECT_EQ(begun, first);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, std::this_thread::get_id());
  const absl::Status told = thread.Call(
      "third", [] { return absl::InternalError("of the call"); }, kLong);
  EXPECT_EQ(told, absl::InternalError("of the call"));
}

// And it is not waited for when the thread is dropped, which its own state outlives.
TEST(NcclThread, LeavesACallBehindThatDoesNotComeBack) {
  const auto device = device::MakeCpuDevice();
  const auto comes_back = std::make_shared<std::promise<void>>();
  const auto done = std::make_shared<std::promise<void>>();
  {
    NcclThread thread(*device, [] {});
    const absl::Status told = thread.Call(
        "ncclCommInitRank",
        [comes_back, done] {
          comes_back->get_future().wait();
          done->set_value();
          return absl::OkStatus();
        },
        absl::Milliseconds(1));
    EXPECT_EQ(told, absl::DeadlineExceededError("ncclCommInitRank has not come back within 1ms"));
  }
  comes_back->set_value();
  done->get_future().wait();
}

}  // namespace
}  // namespace zeroshard::backends
