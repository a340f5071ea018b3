#include "zeroshard/comm/host_communicator.h"

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "zeroshard/comm/transport.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::comm {
namespace {

// What a test sees of a transport that carries nothing.
struct Seen {
  std::function<void(int, const absl::Status&)> peer_failed;
  std::optional<absl::Status> cancelled;
  bool left = false;  // without having been cancelled
};

class IdleTransport final : public Transport {
 public:
  explicit IdleTransport(Seen& seen) : seen_(seen) {}
  ~IdleTransport() override { seen_.left = !seen_.cancelled.has_value(); }
  int rank() const override { return 0; }
  int world_size() const override { return 2; }
  std::string_view name() const override { return "idle"; }
  Transfer Send(int, Channel, const void*, int64_t) override { return {1}; }
  Transfer Receive(int, Channel, void*, int64_t) override { return {2}; }
  absl::Status Wait(Transfer, Deadline) override { return absl::UnavailableError("it carries nothing"); }
  void Cancel(const absl::Status& cause) override { seen_.cancelled = cause; }
  void Quiesce() override {}
  void OnPeerFailed(std::function<void(int, const absl::Status&)> failed) override { seen_.peer_failed = std::move(failed); }
  absl::StatusOr<std::unique_ptr<Transport>> Split(const SplitSpec&) override { return absl::UnimplementedError(""); }

 private:
  Seen& seen_;
};

class HostCommunicatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Communicator> Make() { return *MakeHostCommunicator(*device_, std::make_unique<IdleTransport>(seen_)); }

  const std::unique_ptr<device::Device> device_ = device::MakeCpuDevice();
  Seen seen_;
};

TEST_F(HostCommunicatorTest, TakesLeaveWhereAllIsWell) {
  Make().reset();
  EXPECT_TRUE(seen_.left);
}

// Else peers that wait for this rank would blame it, and not the one that is gone.
TEST_F(HostCommunicatorTest, TellsPeersWhyItFailedBetweenOperations) {
  std::unique_ptr<Communicator> rank = Make();
  seen_.peer_failed(1, absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(rank->status(), absl::UnavailableError("rank 1 is gone"));
  rank.reset();
  ASSERT_TRUE(seen_.cancelled.has_value());
  EXPECT_EQ(*seen_.cancelled, absl::UnavailableError("rank 1 is gone"));
  EXPECT_FALSE(seen_.left);
}

}  // namespace
}  // namespace zeroshard::comm
