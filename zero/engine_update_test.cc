// Updated parameters are gathered while the optimizer still works: in buckets of any size, by all-gather or broadcasts, the same bits;
// and what comes first is on its way before what comes last is written.

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/recorder.h"
#include "zeroshard/zero/formulas.h"
#include "zeroshard/zero/testing/expect_reference.h"
#include "zeroshard/zero/testing/toy_units.h"
#include "zeroshard/zero/updated_gather.h"

namespace zeroshard::zero {
namespace {

using testing::EqualUnits;
using testing::ExpectReference;
using testing::OddUnits;
using testing::RunOnRanks;

EngineOptions Options(int stage, Partition partition) {
  EngineOptions options;
  options.stage = stage;
  options.partition = partition;
  options.reduce_bucket_size = 1000;
  options.optimizer.groups = {{.weight_decay = 0.1}, {}};
  if (stage == 3) options.persistence_threshold = 404;
  return options;
}

void ForEachWay(const std::function<void(const EngineOptions&)>& check) {
  for (int stage : {1, 2, 3}) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
      for (int64_t bucket : {0, 1, 700, 1'000'000}) {
        for (bool all_gather : {true, false}) {
          EngineOptions options = Options(stage, partition);
          options.allgather_bucket_size = bucket;
          options.allgather_partitions = all_gather;
          options.overlap = bucket != 700;
          check(options);
        }
      }
    }
  }
}

TEST(EngineUpdate, BucketsAndBroadcastsChangeNoBitAndNoByte) {
  for (int world : {1, 2, 3}) {
    ForEachWay([&](const EngineOptions& options) {
      SCOPED_TRACE(testing::Describe(options, world));
      const Layout layout = *Layout::Create(OddUnits(), LayoutOptionsOf(options, world));
      const auto runs = ExpectReference(OddUnits(), options, {.world_size = world}, {.steps = 3});
      for (int r = 0; r < world; ++r) {
        for (int64_t sent : runs[r].data_bytes) EXPECT_EQ(sent, PredictDataBytes(layout, options, r)) << "rank " << r;
      }
    });
  }
}

TEST(EngineUpdate, AFullBucketIsGatheredBeforeTheNextIsWritten) {
  for (Partition partition : {Partition::kFlat, Partition::kTensor}) {
    for (int64_t bucket : {0, 640}) {
      RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
        EngineOptions options = Options(2, partition);
        options.allgather_bucket_size = bucket;
        device::Device& device = communicator.device();
        std::vector<model::UnitSpec> units = EqualUnits(3, 320);
        for (model::UnitSpec& unit : units) unit.parameters.push_back({.name = unit.name + ".other", .shape = {320}});
        const Layout layout = *Layout::Create(units, LayoutOptionsOf(options, 2));
        auto buffer = communicator.Allocate(3 * 640 * 4, device::Use::kParameters, "parameters");
        ASSERT_TRUE(buffer.ok());
        const device::Array all = buffer->array(device::DType::kFloat32);
        const auto compute = device.MakeStream(device::StreamKind::kCompute);
        std::vector<UpdatedGather::Whole> sections;
        for (int s = 0; s < 3; ++s) sections.push_back({.section = s, .memory = all.Slice(s * 640, 640)});
        UpdatedGather gather(communicator, layout, options, *compute, sections);
        gather.Begin();
        for (int s = 0; s < 3; ++s) {
          const Range own = layout.sections()[s].Owned(communicator.rank());
          device.elementwise().Fill(*compute, all.Slice(s * 640 + own.first, own.count), 10 * s + communicator.rank());
          gather.WrittenBefore(s + 1);
          gather.WorkOf(s).WaitOn(*compute);
          std::vector<float> whole(640);
          device.CopyToHost(*compute, sections[s].memory, whole.data());
          compute->Synchronize();
          EXPECT_EQ(whole[320 * (1 - communicator.rank())], 10 * s + 1 - communicator.rank());
        }
        gather.Finish();
      });
    }
  }
}

// In the records of a training run: the first unit's gather was issued before the optimizer was done.
TEST(EngineUpdate, TheFirstUnitsGatherIsIssuedBeforeTheLastUnitsUpdate) {
  for (bool overlap : {true, false}) {
    RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
      device::Recorder& recorder = communicator.device().recorder();
      recorder.Reserve(1000);
      recorder.Turn(device::Recorder::Mode::kTrace);
      EngineOptions options = Options(2, Partition::kFlat);
      options.overlap = overlap;
      ASSERT_TRUE(testing::Train(communicator, EqualUnits(5, 2000), options, {.steps = 1}).ok());
      recorder.Turn(device::Recorder::Mode::kOff);
      const device::Span* optimizer = nullptr;
      const device::Span* first = nullptr;
      const device::Span* last = nullptr;
      for (int64_t i = 0; i < recorder.size(); ++i) {
        const device::Span& span = recorder.span(i);
        if (span.kind == device::SpanKind::kOptimizer) optimizer = &span;
        if (span.kind != device::SpanKind::kCollective || span.control || device::View(span.name) != "all-gather") continue;
        if (device::View(span.label) == "unit.0") first = &span;
        if (device::View(span.label) == "unit.4") last = &span;
      }
      ASSERT_TRUE(optimizer != nullptr && first != nullptr && last != nullptr);
      EXPECT_EQ(first->issued_ns < optimizer->ended_ns, overlap);
      EXPECT_GE(last->issued_ns, optimizer->ended_ns);
    });
  }
}

// As above, where the host updates sub-group by sub-group on a thread of its own. How far that is when the rank's thread issues the
// gather is the scheduler's to say: in some step of many it is not at the last one yet, unless somebody waits for that.
TEST(EngineUpdate, TheFirstUnitsGatherIsIssuedBeforeTheLastSubGroupGoesUp) {
  for (int stage : {1, 2}) {
    std::atomic<int> ahead{0};
    for (int attempt = 0; attempt < 50 && ahead == 0; ++attempt) {
      RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
        device::Recorder& recorder = communicator.device().recorder();
        recorder.Reserve(1000);
        recorder.Turn(device::Recorder::Mode::kTrace);
        EngineOptions options = Options(stage, Partition::kFlat);
        options.reduce_bucket_size = 10'000'000;
        options.offload_optimizer.target = OffloadTarget::kHost;
        options.sub_group_size = 40'000;
        ASSERT_TRUE(testing::Train(communicator, EqualUnits(4, 400'000), options, {.steps = 1}).ok());
        recorder.Turn(device::Recorder::Mode::kOff);
        const device::Span *update = nullptr, *gather = nullptr, *last_up = nullptr;
        int ups = 0;
        for (int64_t i = 0; i < recorder.size(); ++i) {
          const device::Span& span = recorder.span(i);
          if (span.kind == device::SpanKind::kOptimizer) update = &span;
          if (span.kind == device::SpanKind::kCopy && span.track == device::TrackOf(device::StreamKind::kCopyUp)) {
            last_up = &span;
            ++ups;
          }
          if (span.kind == device::SpanKind::kCollective && !span.control && device::View(span.name) == "all-gather" &&
              device::View(span.label) == "unit.0") {
            gather = &span;
          }
        }
        ASSERT_TRUE(update != nullptr && gather != nullptr && last_up != nullptr);
        EXPECT_EQ(ups, 20);
        EXPECT_GE(gather->issued_ns, update->begun_ns);
        EXPECT_LE(gather->issued_ns, update->ended_ns);
        ahead += gather->issued_ns < last_up->begun_ns;
      });
    }
    EXPECT_GT(ahead, 0) << "in stage " << stage;
  }
}

}  // namespace
}  // namespace zeroshard::zero
