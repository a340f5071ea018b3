// Ranks as on several hosts: what goes by host first has the tree's bits, and only the bytes that it must.

#include <random>

#include "gtest/gtest.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/comm/testing/collective_case.h"
#include "zeroshard/comm/testing/group.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/late/late_device.h"

namespace zeroshard::backends {
namespace {

using comm::Communicator;
using comm::OpKind;
using comm::Traffic;
using comm::Work;
using comm::testing::Case;
using comm::testing::CaseOnRank;
using device::DType;

struct Layout {
  int hosts;
  int each;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.hosts << " x " << layout.each; }

comm::testing::Backend BackendOf(const Layout& layout) {
  comm::testing::Backend backend;
  backend.make_device = [] { return device::MakeCpuDevice(); };
  backend.make_ranks = [layout](const std::vector<device::Device*>& devices, const comm::HostOptions& host) {
    InProcessOptions options;
    options.host = host;
    options.host.poison_outputs = true;
    options.mapped = false;
    options.ranks_per_host = layout.each;
    options.faults = {.seed = 3, .max_delay = absl::Microseconds(30)};
    return *MakeInProcessGroup(devices, options);
  };
  return backend;
}

class ByHost : public ::testing::TestWithParam<Layout> {
 protected:
  int world_size() const { return GetParam().hosts * GetParam().each; }
};
INSTANTIATE_TEST_SUITE_P(ByHost, ByHost,
                         ::testing::Values(Layout{2, 2}, Layout{3, 2}, Layout{2, 4}, Layout{5, 2}, Layout{4, 4},
                                           Layout{2, 3}, Layout{3, 5}),
                         [](const auto& instance) {
                           return std::to_string(instance.param.hosts) + "HostsOf" + std::to_string(instance.param.each);
                         });

constexpr OpKind kCollectives[] = {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kReduce,
                                   OpKind::kBroadcast};

// Scratch of a few elements a rank: many pieces, the last ones shorter, and parts without any.
TEST_P(ByHost, GivesTheTreesBits) {
  comm::testing::Group group(BackendOf(GetParam()), world_size(), {.by_host_bytes = 0, .scratch_bytes = 0});
  group.Run([](Communicator& rank) {
    uint64_t seed = 1;
    for (const OpKind kind : kCollectives) {
      for (const DType type : {DType::kFloat32, DType::kBfloat16, DType::kFloat64, DType::kInt32}) {
        for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{{1}, {437}, {7, 0, 190}}) {
          for (const comm::ReduceOp op : {comm::ReduceOp::kSum, comm::ReduceOp::kAverage, comm::ReduceOp::kMax}) {
            if (op == comm::ReduceOp::kAverage ? !IsFloat(type) : op != comm::ReduceOp::kSum && !IsReduction(kind)) continue;
            if (op == comm::ReduceOp::kAverage && !IsReduction(kind)) continue;
            Case c{.kind = kind, .op = op, .in = type, .out = type, .counts = counts, .seed = ++seed};
            c.gap = seed % 2 == 0 ? 0 : 3;
            c.in_place = seed % 3 != 0;
            c.root = static_cast<int>(seed % static_cast<uint64_t>(rank.world_size()));
            CaseOnRank on_rank(rank, c);
            Work work = on_rank.Issue();
            on_rank.Check(work);
          }
        }
      }
    }
  });
}

// Most are long enough, and some are not.
TEST_P(ByHost, RunsMixedOperationsBackToBack) {
  comm::testing::Group group(BackendOf(GetParam()), world_size(), {.by_host_bytes = 200, .scratch_bytes = 1 << 14});
  group.Run([](Communicator& rank) {
    std::mt19937_64 random(static_cast<uint64_t>(rank.world_size()));  // the same on every rank
    for (int window = 0; window < 4; ++window) {
      std::vector<std::unique_ptr<CaseOnRank>> cases;
      std::vector<Work> works;
      for (int i = 0; i < 25; ++i) {
        Case c{.kind = static_cast<OpKind>(random() % 6), .seed = random()};
        if (random() % 3 == 0) c.in = c.out = DType::kFloat16;
        c.counts = std::vector<int64_t>(1 + random() % 2);
        for (int64_t& count : c.counts) count = static_cast<int64_t>(random() % (random() % 8 == 0 ? 3000 : 40));
        c.in_place = random() % 2 == 0;
        c.root = static_cast<int>(random() % static_cast<uint64_t>(rank.world_size()));
        cases.push_back(std::make_unique<CaseOnRank>(rank, c));
        works.push_back(cases.back()->Issue());
      }
      for (size_t i = 0; i < cases.size(); ++i) cases[i]->Check(works[i]);
    }
  });
}

// The formulas of the direct schedules hold: what is sent less to other hosts is sent more within one.
TEST_P(ByHost, SendsAsManyBytesInAllAsDirectly) {
  comm::testing::Group group(BackendOf(GetParam()), world_size(), {.by_host_bytes = 0});
  group.Run([](Communicator& rank) {
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather}) {
      const Case c{.kind = kind, .counts = {240 * 100}};
      CaseOnRank on_rank(rank, c);
      const int64_t before = rank.wire().sent_bytes(Traffic::kData);
      Work work = on_rank.Issue();
      on_rank.Check(work);
      EXPECT_EQ(rank.wire().sent_bytes(Traffic::kData) - before,
                comm::testing::DirectBytes(c, rank.rank(), rank.world_size()))
          << Describe(c);
    }
  });
}

TEST(ByHostStaged, GivesTheTreesBits) {
  comm::testing::Backend backend = BackendOf({2, 2});
  backend.make_device = [] { return device::MakeLateDevice({.order = device::LateOrder::kLazy}); };
  comm::testing::Group group(backend, 4, {.by_host_bytes = 0, .scratch_bytes = 4096, .staging_bytes = 8192});
  group.Run([](Communicator& rank) {
    for (const OpKind kind : kCollectives) {
      CaseOnRank on_rank(rank, {.kind = kind, .counts = {3000, 11}, .root = 3});
      Work work = on_rank.Issue();
      on_rank.Check(work);
    }
  });
}

// One host's ranks, two of each host, and hosts that hold unlike numbers of them.
TEST(ByHostSplit, GroupsKnowTheirHosts) {
  comm::testing::Group group(BackendOf({2, 4}), 8, {.by_host_bytes = 0});
  group.Run([](Communicator& rank) {
    for (const int color : {rank.rank() / 4, rank.rank() % 2, rank.rank() == 7 ? 1 : 0}) {
      const auto part = rank.Split(color, 0, "part");
      ASSERT_TRUE(part.ok()) << part.status();
      for (const OpKind kind : kCollectives) {
        CaseOnRank on_rank(**part, {.kind = kind, .counts = {300}});
        Work work = on_rank.Issue();
        on_rank.Check(work);
      }
    }
  });
}

}  // namespace
}  // namespace zeroshard::backends
