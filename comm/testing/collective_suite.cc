#include "zeroshard/comm/testing/collective_suite.h"

#include <algorithm>
#include <random>
#include <vector>

#include "zeroshard/comm/testing/collective_case.h"

namespace zeroshard::comm::testing {
namespace {

using device::DType;

constexpr OpKind kCollectives[] = {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kReduce,
                                   OpKind::kBroadcast};
constexpr ScheduleChoice kSchedules[] = {ScheduleChoice::kDirect, ScheduleChoice::kHalving, ScheduleChoice::kScatter};
constexpr DType kNarrow[] = {DType::kFloat32, DType::kBfloat16, DType::kFloat16};
constexpr DType kAll[] = {DType::kFloat32, DType::kFloat64, DType::kBfloat16, DType::kFloat16,
                          DType::kInt32,   DType::kInt64,   DType::kUint8};

void RunCase(Communicator& rank, const Case& c) {
  CaseOnRank on_rank(rank, c);
  Work work = on_rank.Issue();
  on_rank.Check(work);
}

bool CanReduceInto(DType in, DType out) {
  const auto narrow = [](DType t) { return std::find(std::begin(kNarrow), std::end(kNarrow), t) != std::end(kNarrow); };
  return in != DType::kUint8 && (in == out || (narrow(in) && narrow(out)));
}

// Each collective × dtypes × operations × in place or not × root, at these counts.
void RunAllKinds(Communicator& rank, const std::vector<std::vector<int64_t>>& counts) {
  uint64_t seed = 1;
  for (const OpKind kind : kCollectives) {
    for (const DType in : kAll) {
      for (const DType out : kAll) {
        if (IsReduction(kind) ? !CanReduceInto(in, out) : in != out) continue;
        for (const std::vector<int64_t>& each : counts) {
          ++seed;
          Case c{.kind = kind, .in = in, .out = out, .counts = each, .seed = seed};
          c.gap = seed % 2 == 0 ? 0 : 5;
          c.in_place = in == out && seed % 3 != 0;
          c.root = static_cast<int>(seed % static_cast<uint64_t>(rank.world_size()));
          c.wait_at_once = seed % 5 == 0;
          const bool floats = IsFloat(in);
          for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax, ReduceOp::kMin}) {
            c.op = op;
            if (op == ReduceOp::kAverage && !floats) continue;
            if (op != ReduceOp::kSum && !IsReduction(kind)) continue;
            RunCase(rank, c);
          }
        }
      }
    }
  }
}

void RunOnWorlds(const Backend& backend, std::vector<int> worlds, const std::vector<std::vector<int64_t>>& counts,
                 int64_t scratch_bytes) {
  for (const int world_size : worlds) {
    if (world_size > backend.most_ranks) continue;
    for (const ScheduleChoice schedules : kSchedules) {
      SCOPED_TRACE(world_size);
      Group group(backend, world_size,
                  {.schedules = schedules, .scratch_bytes = scratch_bytes, .staging_bytes = 4 * scratch_bytes});
      group.Run([&](Communicator& rank) { RunAllKinds(rank, counts); });
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST_P(CollectiveTest, GivesTheTreesBits_SmallCounts) {
  RunOnWorlds(GetParam(), {1, 2, 3, 4, 5}, {{0}, {1}, {37}, {3, 0, 64, 1}}, 1 << 20);
}

TEST_P(CollectiveTest, GivesTheTreesBits_ManyPieces) { RunOnWorlds(GetParam(), {3}, {{500}, {100, 301}}, 4096); }

TEST_P(CollectiveTest, RunsMixedOperationsBackToBack) {
  for (const int world_size : {2, 3, 5}) {
    for (const ScheduleChoice schedules : kSchedules) {
      Group group(GetParam(), world_size, {.schedules = schedules, .scratch_bytes = 16384});
      group.Run([&](Communicator& rank) {
        std::mt19937_64 random(static_cast<uint64_t>(world_size));  // the same on every rank
        for (int window = 0; window < 6; ++window) {
          std::vector<std::unique_ptr<CaseOnRank>> cases;
          std::vector<Work> works;
          for (int i = 0; i < 25; ++i) {
            Case c{.kind = static_cast<OpKind>(random() % 6), .seed = random()};
            c.counts = std::vector<int64_t>(1 + random() % 3);
            for (int64_t& count : c.counts) count = static_cast<int64_t>(random() % (random() % 8 == 0 ? 3000 : 40));
            c.in_place = random() % 2 == 0;
            c.root = static_cast<int>(random() % static_cast<uint64_t>(world_size));
            c.wait_at_once = random() % 3 == 0;
            cases.push_back(std::make_unique<CaseOnRank>(rank, c));
            works.push_back(cases.back()->Issue());
          }
          for (size_t i = cases.size(); i-- > 0;) cases[i]->Check(works[i]);
        }
      });
    }
  }
}

TEST_P(CollectiveTest, TakesNullAndNothing) {
  for (const int world_size : {1, 2, 3}) {
    Group group(GetParam(), world_size);
    group.Run([](Communicator& rank) {
      const device::Array none;
      EXPECT_TRUE(rank.AllReduce(none, none, ReduceOp::kSum).Wait().ok());
      EXPECT_TRUE(rank.ReduceScatter(none, none, ReduceOp::kAverage).Wait().ok());
      EXPECT_TRUE(rank.AllGather(none, none).Wait().ok());
      EXPECT_TRUE(rank.Reduce(none, none, ReduceOp::kMax, 0).Wait().ok());
      EXPECT_TRUE(rank.Broadcast(none, none, 0).Wait().ok());
      EXPECT_TRUE(rank.AllReduce(std::span<const Segment>(), ReduceOp::kSum).Wait().ok());
      EXPECT_TRUE(rank.Barrier().Wait().ok());
      EXPECT_TRUE(rank.Finalize().ok());
    });
  }
}

TEST_P(CollectiveTest, CountsWhatEachRankSends) {
  for (const int world_size : {1, 2, 3, 4}) {
    Group group(GetParam(), world_size);
    group.Run([&](Communicator& rank) {
      for (const OpKind kind : kCollectives) {
        const Case c{.kind = kind,
                     .in = DType::kBfloat16,
                     .out = IsReduction(kind) ? DType::kFloat32 : DType::kBfloat16,
                     .counts = {12 * 1000, 7},
                     .gap = 3,
                     .root = world_size - 1};
        const int64_t data = rank.wire().sent_bytes(Traffic::kData);
        const int64_t control = rank.wire().sent_bytes(Traffic::kControl);
        RunCase(rank, c);
        EXPECT_EQ(rank.wire().sent_bytes(Traffic::kData) - data,
                  world_size == 1 ? 0 : DirectBytes(c, rank.rank(), world_size))
            << Describe(c);
        EXPECT_LT(rank.wire().sent_bytes(Traffic::kControl) - control, 200 * world_size);
      }
    });
  }
}

TEST_P(CollectiveTest, HoldsMoreOperationsThanTheRing) {
  Group group(GetParam(), 2);
  group.Run([](Communicator& rank) {
    const auto buffer = rank.device().Allocate(4, device::Use::kData, "x");
    const device::Array x = buffer->array(DType::kFloat32);
    std::vector<Work> works;
    for (int i = 0; i < 3 * Communicator::kRing; ++i) works.push_back(rank.AllReduce(x, x, ReduceOp::kMax));
    for (Work& work : works) EXPECT_TRUE(work.Wait().ok());
    EXPECT_TRUE(works.front().event().Done());
  });
}

TEST_P(CollectiveTest, SplitsByColorAndKey) {
  Group group(GetParam(), 5);
  group.Run([](Communicator& rank) {
    // Even ranks in reverse order, odd ones in order, rank 4 joins none.
    const int color = rank.rank() == 4 ? -1 : rank.rank() % 2;
    auto part = rank.Split(color, color == 0 ? -rank.rank() : 0);
    ASSERT_TRUE(part.ok()) << part.status();
    if (color == -1) {
      EXPECT_EQ(*part, nullptr);
    } else {
      EXPECT_EQ((*part)->world_size(), 2);
      EXPECT_EQ((*part)->rank(), color == 0 ? 1 - rank.rank() / 2 : rank.rank() / 2);
      const int64_t before = rank.wire().sent_bytes(Traffic::kData);
      RunCase(**part, {.counts = {33}});
      RunCase(**part, {.kind = OpKind::kAllGather, .counts = {5}});
      EXPECT_EQ(device::View(rank.device().recorder().LastOperation().group), color == 0 ? "group 2,0" : "group 1,3");
      EXPECT_GT((*part)->wire().sent_bytes(Traffic::kData), 0);
      EXPECT_EQ(rank.wire().sent_bytes(Traffic::kData) - before, (*part)->wire().sent_bytes(Traffic::kData));
      EXPECT_TRUE((*part)->Finalize().ok());
    }
    RunCase(rank, {.counts = {100}});
  });
}

TEST_P(CollectiveTest, AllocatesMemoryThatCollectivesUse) {
  Group group(GetParam(), 2);
  group.Run([](Communicator& rank) {
    auto buffer = rank.Allocate(4096, device::Use::kParameters, "flat");
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(rank.device().ledger().now(device::Use::kParameters), buffer->bytes());
    const device::Array x = buffer->array(DType::kInt32);
    EXPECT_TRUE(rank.AllReduce(x, x, ReduceOp::kSum).Wait().ok());
  });
}

TEST_P(CollectiveTest, EndsNoBarrierBeforeEveryRankHasBegunIt) {
  for (const ScheduleChoice schedules : kSchedules) {
    Group group(GetParam(), 5, {.schedules = schedules});
    std::atomic<int> begun{0};
    group.Run([&](Communicator& rank) {
      for (int round = 1; round <= 20; ++round) {
        ++begun;
        ASSERT_TRUE(rank.Barrier({.wait_at_once = round % 2 == 0}).Wait().ok());
        EXPECT_GE(begun.load(), 5 * round);
        ASSERT_TRUE(rank.Barrier().Wait().ok());
      }
    });
  }
}

TEST_P(CollectiveTest, BeginsAfterItsEventsAndEndsBeforeItsOwn) {
  Group group(GetParam(), 2);
  group.Run([](Communicator& rank) {
    device::Device& device = rank.device();
    const auto buffer = device.Allocate(4 * 1000, device::Use::kData, "x");
    const device::Array x = buffer->array(DType::kFloat32);
    const auto stream = device.MakeStream(device::StreamKind::kCompute);
    const auto ready = device.MakeEvent();
    for (int step = 1; step <= 20; ++step) {
      ready->Expect();  // The input is written after the call.
      Work work = rank.AllReduce(x, x, ReduceOp::kSum, {.after = {nullptr, ready.get(), &Work().event()}});
      device.elementwise().Fill(*stream, x, step);
      stream->Record(*ready);
      work.WaitOn(*stream);
      float last = 0;
      device.CopyToHost(*stream, x.Slice(999, 1), &last);
      stream->Synchronize();
      EXPECT_EQ(last, static_cast<float>(2 * step));
      EXPECT_TRUE(work.Wait().ok());
    }
  });
}

TEST_P(CollectiveTest, RecordsTheCallersEventAtItsEnd) {
  Group group(GetParam(), 2);
  group.Run([](Communicator& rank) {
    device::Device& device = rank.device();
    const auto buffer = device.Allocate(4 * 1000, device::Use::kData, "x");
    const device::Array x = buffer->array(DType::kFloat32);
    const auto stream = device.MakeStream(device::StreamKind::kCompute);
    const auto ready = device.MakeEvent(), end = device.MakeEvent();
    for (int step = 1; step <= 20; ++step) {
      device.elementwise().Fill(*stream, x, step);
      stream->Record(*ready);
      Work work = rank.AllReduce(x, x, ReduceOp::kSum, {.after = {ready.get()}, .end = end.get()});
      EXPECT_EQ(&work.event(), end.get());
      // Later operations take the communicator's own events over, not this one.
      for (int i = 0; step == 1 && i < 2 * Communicator::kRing; ++i) EXPECT_TRUE(rank.Barrier().Wait().ok());
      stream->Wait(*end);
      float first = 0;
      device.CopyToHost(*stream, x.Slice(0, 1), &first);
      stream->Synchronize();
      EXPECT_EQ(first, static_cast<float>(2 * step));
      EXPECT_TRUE(work.Wait().ok());
    }
  });
}

}  // namespace
}  // namespace zeroshard::comm::testing
