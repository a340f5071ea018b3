#include "zeroshard/integration_tests/faults/random_operations.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "zeroshard/comm/testing/reference.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::integration_tests {
namespace {

using comm::OpKind;
using comm::ReduceOp;
using device::Array;
using device::DType;

constexpr int kInFlight = 3;
constexpr int64_t kElements = int64_t{1} << 16;  // of a part

// What every element of a rank's input is.
float ValueOf(int rank, int64_t number) {
  return 0.1F * static_cast<float>(rank + 1) + 0.37F * static_cast<float>(number % 97);
}

float Reduced(int world_size, int64_t number, ReduceOp op) {
  std::vector<float> values;
  std::vector<const std::byte*> ranks;
  for (int rank = 0; rank < world_size; ++rank) values.push_back(ValueOf(rank, number));
  for (const float& value : values) ranks.push_back(reinterpret_cast<const std::byte*>(&value));
  float result = 0;
  comm::testing::ReduceElement(DType::kFloat32, DType::kFloat32, op, ranks, reinterpret_cast<std::byte*>(&result));
  return result;
}

// One collective, in place, and what its output must be.
class Lane {
 public:
  Lane(comm::Communicator& communicator, Array memory)
      : communicator_(communicator),
        memory_(memory),
        host_(static_cast<float*>(communicator.device().HostAddress(memory))) {}

  void Begin(std::mt19937_64& random, int64_t number) {
    constexpr std::array kKinds = {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kBroadcast,
                                   OpKind::kBarrier};
    constexpr std::array kReductions = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax};
    number_ = number;
    kind_ = kKinds[random() % kKinds.size()];
    op_ = kReductions[random() % kReductions.size()];
    // Short and long ones.
    count_ = static_cast<int64_t>(random() % (random() % 2 == 0 ? 40 : kElements) + 1);
    const int n = communicator_.world_size(), rank = communicator_.rank();
    const Array whole = memory_.Slice(0, count_ * n);
    const Array mine = memory_.Slice(rank * count_, count_);
    std::fill_n(host_, count_ * n, ValueOf(rank, number));
    root_ = static_cast<int>(count_ % n);
    switch (kind_) {
      case OpKind::kAllReduce:
        work_ = communicator_.AllReduce(mine, mine, op_);
        break;
      case OpKind::kReduceScatter:
        work_ = communicator_.ReduceScatter(whole, mine, op_);
        break;
      case OpKind::kAllGather:
        work_ = communicator_.AllGather(mine, whole);
        break;
      case OpKind::kBroadcast:
        work_ = communicator_.Broadcast(mine, mine, root_);
        break;
      default:
        work_ = communicator_.Barrier();
        break;
    }
  }

  absl::Status Wait() { return work_.Wait(); }

  bool Right() const {
    const int n = communicator_.world_size(), rank = communicator_.rank();
    const auto is = [&](int part, float value) {
      const float* const begin = host_ + part * count_;
      return std::all_of(begin, begin + count_, [&](float x) { return std::memcmp(&x, &value, sizeof(x)) == 0; });
    };
    switch (kind_) {
      case OpKind::kAllReduce:
      case OpKind::kReduceScatter:
        return is(rank, Reduced(n, number_, op_));
      case OpKind::kAllGather:
        for (int part = 0; part < n; ++part) {
          if (!is(part, ValueOf(part, number_))) return false;
        }
        return true;
      case OpKind::kBroadcast:
        return is(rank, ValueOf(root_, number_));
      default:
        return true;
    }
  }

 private:
  comm::Communicator& communicator_;
  const Array memory_;
  float* const host_;
  OpKind kind_ = OpKind::kBarrier;
  ReduceOp op_ = ReduceOp::kSum;
  int root_ = 0;
  int64_t count_ = 0;
  int64_t number_ = 0;
  comm::Work work_;
};

}  // namespace

absl::Status RunOperations(comm::Communicator& communicator, RankReport& report, const OperationsOptions& options) {
  const int64_t elements = kElements * communicator.world_size();
  const int64_t bytes = kInFlight * elements * static_cast<int64_t>(sizeof(float));
  ZS_ASSIGN_OR_RETURN(device::Buffer buffer,
                      options.registered ? communicator.Allocate(bytes, device::Use::kCommunication, "test")
                                         : communicator.device().Allocate(bytes, device::Use::kCommunication, "test"));
  std::vector<Lane> lanes;
  for (int i = 0; i < kInFlight; ++i) {
    lanes.emplace_back(communicator, buffer.array(DType::kFloat32).Slice(i * elements, elements));
  }
  std::mt19937_64 random(options.seed);
  for (int64_t begun = 0; begun < options.most;) {
    const auto batch =
        static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(random() % kInFlight) + 1, options.most - begun));
    for (size_t i = 0; i < batch; ++i) lanes[i].Begin(random, begun++);
    absl::Status first;
    for (size_t i = 0; i < batch; ++i) {
      const absl::Status ended = lanes[i].Wait();
      if (ended.ok()) {
        ++report.operations;
        if (!lanes[i].Right()) ++report.wrong;
      } else if (first.ok()) {
        report.noticed_cpu_ms = ProcessCpuMs();
        report.noticed_ms = NowMs();
        first = ended;
      }
    }
    if (!first.ok()) return first;
  }
  return options.finalize ? communicator.Finalize() : absl::OkStatus();
}

}  // namespace zeroshard::integration_tests
