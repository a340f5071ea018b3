// What a small collective costs a rank beside its transport, nanoseconds: a communicator whose peer answers at once, with the same
// words. What is left is the face, its records and the schedule; the way to a peer and back comes on top. Prints one JSON object.
//
//   bazel run -c opt //comm:brief_operation_benchmark
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "glog/logging.h"
#include "zeroshard/comm/host_communicator.h"
#include "zeroshard/comm/versioned_value.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::comm {
namespace {

// Rank 1 of 2 gives whatever rank 0 gives.
class Echo final : public Transport {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 2; }
  std::string_view name() const override { return "echo"; }
  Transfer Send(int /*peer*/, Channel /*channel*/, const void* data, int64_t /*bytes*/) override {
    std::memcpy(&brief_, data, sizeof(brief_));
    return {1};
  }
  Transfer Receive(int /*peer*/, Channel /*channel*/, void* data, int64_t /*bytes*/) override {
    to_ = data;
    return {2};
  }
  absl::Status Wait(Transfer transfer, Deadline /*deadline*/) override {
    if (transfer.id != 2) return absl::OkStatus();
    brief_.rank = 1;
    std::memcpy(to_, &brief_, sizeof(brief_));
    return absl::OkStatus();
  }
  void Cancel(const absl::Status& /*cause*/) override {}
  void Quiesce() override {}
  void Doing(const OperationHeader& operation) override { doing_.Store(operation); }
  void OnPeerFailed(std::function<void(int rank, const absl::Status& why)> /*failed*/) override {}
  absl::StatusOr<std::unique_ptr<Transport>> Split(const SplitSpec& /*spec*/) override {
    return absl::UnimplementedError("echo");
  }

 private:
  OperationBrief brief_;
  void* to_ = nullptr;
  VersionedValue<OperationHeader> doing_;
};

double Nanoseconds(const std::function<void()>& once) {
  constexpr int kRounds = 2000, kCalls = 64;
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const int64_t begin = device::NowNs();
    for (int j = 0; j < kCalls; ++j) once();
    rounds.push_back(static_cast<double>(device::NowNs() - begin) / kCalls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

int Main() {
  const std::unique_ptr<device::Device> device = device::MakeCpuDevice({.threads = 1});
  auto communicator = MakeHostCommunicator(*device, std::make_unique<Echo>());
  CHECK(communicator.ok()) << communicator.status();
  auto buffer = device->Allocate(64, device::Use::kCommunication, "benchmark");
  CHECK(buffer.ok()) << buffer.status();
  const device::Array in = buffer->array(device::DType::kFloat32).Slice(0, 1);
  const device::Array out = buffer->array(device::DType::kFloat32).Slice(1, 1);
  const CallOptions call{.wait_at_once = true, .label = "benchmark"};
  const double barrier = Nanoseconds([&] { CHECK((*communicator)->Barrier(call).Wait().ok()); });
  const double all_reduce =
      Nanoseconds([&] { CHECK((*communicator)->AllReduce(in, out, ReduceOp::kSum, call).Wait().ok()); });
  std::printf("{\"barrier_ns\":%.1f,\"all_reduce_ns\":%.1f}\n", barrier, all_reduce);
  return 0;
}

}  // namespace
}  // namespace zeroshard::comm

int main() { return zeroshard::comm::Main(); }
