// Reductions over several nodes: the bits of one level, with fewer pieces between nodes.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/comm/testing/collective_case.h"

namespace zeroshard::backends {
namespace {

using comm::OpKind;
using comm::ReduceOp;
using device::DType;

// Ranks of nodes of `node_size`.
void OnNodes(int world_size, int node_size, const std::function<void(comm::Communicator&)>& body) {
  comm::MemoryStore store;
  std::vector<std::thread> threads;
  for (int r = 0; r < world_size; ++r) {
    threads.emplace_back([&, r] {
      const auto device = testing::DoubleDevice(r);
      auto made = MakeNcclCommunicator({.device = device.get(),
                                        .store = &store,
                                        .rank = r,
                                        .world_size = world_size,
                                        .timeout = absl::Seconds(30),
                                        .scratch_bytes = 1 << 14,
                                        .host = "node" + std::to_string(r / node_size)});
      ASSERT_TRUE(made.ok()) << made.status();
      body(**made);
      EXPECT_TRUE((*made)->Finalize().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TwoLevels, GiveTheTreesBits) {
  for (const auto& [world_size, node_size] : {std::pair(4, 2), std::pair(6, 2), std::pair(8, 4)}) {
    OnNodes(world_size, node_size, [](comm::Communicator& rank) {
      uint64_t seed = 1;
      for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kReduce}) {
        for (const auto& [in, out] :
             {std::pair(DType::kFloat32, DType::kFloat32), std::pair(DType::kBfloat16, DType::kBfloat16),
              std::pair(DType::kBfloat16, DType::kFloat32), std::pair(DType::kFloat16, DType::kFloat16),
              std::pair(DType::kFloat64, DType::kFloat64)}) {
          for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax}) {
            ++seed;
            comm::testing::CaseOnRank on_rank(rank, {.kind = kind,
                                                     .op = op,
                                                     .in = in,
                                                     .out = out,
                                                     .counts = {0, 301, 7},
                                                     .gap = seed % 2 == 0 ? 0 : 5,
                                                     .in_place = in == out && seed % 3 != 0,
                                                     .seed = seed});
            comm::Work work = on_rank.Issue();
            on_rank.Check(work);
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace zeroshard::backends
