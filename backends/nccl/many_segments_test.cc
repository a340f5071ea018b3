// Collectives of more segments than a stream's queue holds entries: the double of NCCL ends the test where as many are queued.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/testing/nccl_group.h"
#include "zeroshard/comm/testing/collective_case.h"

namespace zeroshard::backends {
namespace {

using comm::OpKind;
using comm::Reduction;
using comm::testing::Case;
using comm::testing::CaseOnRank;
using device::DType;
using testing::NcclGroup;

std::vector<Case> Cases(Reduction reduction, size_t segments) {
  std::vector<Case> cases;
  const std::vector<int64_t> counts(segments, 3);
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kReduce}) {
    const DType in = reduction == Reduction::kTree ? DType::kFloat32 : DType::kInt32;
    cases.push_back({.kind = kind, .op = comm::ReduceOp::kSum, .in = in, .out = in, .counts = counts, .gap = 2});
  }
  for (const OpKind kind : {OpKind::kAllGather, OpKind::kBroadcast}) {
    for (const int64_t gap : {0, 2}) {
      cases.push_back({.kind = kind, .in = DType::kUint8, .out = DType::kUint8, .counts = counts, .gap = gap, .root = 1});
    }
  }
  return cases;
}

class ManySegments : public ::testing::TestWithParam<Reduction> {};

TEST_P(ManySegments, AreCarriedAsFewAre) {
  NcclGroup group(3, {.timeout = absl::Seconds(60), .reduction = GetParam(), .scratch_bytes = 1 << 16});
  group.Run([](comm::Communicator& rank) {
    for (const Case& c : Cases(GetParam(), 700)) {
      SCOPED_TRACE(comm::testing::Describe(c));
      CaseOnRank on_rank(rank, c);
      comm::Work work = on_rank.Issue();
      on_rank.Check(work);
    }
  });
}

// Its deadline counts though the operation is not issued as a whole.
TEST_P(ManySegments, DoNotHoldTheWatchdogWhereARankDoesNotCome) {
  for (size_t i = 0; i < Cases(GetParam(), 1).size(); ++i) {
    NcclGroup group(2, {.timeout = absl::Milliseconds(300), .reduction = GetParam(), .scratch_bytes = 1 << 16});
    group.Run([i](comm::Communicator& rank) {
      rank.device().recorder().SetStep(5);  // from which on nothing is agreed upon before
      ASSERT_TRUE(rank.Barrier().Wait().ok());
      if (rank.rank() == 1) return;
      const Case c = Cases(GetParam(), 1200)[i];
      SCOPED_TRACE(comm::testing::Describe(c));
      CaseOnRank on_rank(rank, c);
      const absl::Status told = on_rank.Issue().Wait();
      EXPECT_TRUE(absl::IsDeadlineExceeded(told)) << told;
      EXPECT_TRUE(absl::StrContains(told.message(), "not in it, or do not answer: rank 1")) << told;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Nccl, ManySegments, ::testing::Values(Reduction::kTree, Reduction::kNative),
                         [](const auto& of) { return of.param == Reduction::kTree ? "Tree" : "Native"; });

}  // namespace
}  // namespace zeroshard::backends
