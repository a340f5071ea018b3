#include "zeroshard/comm/rendezvous/roll.h"

#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

using ::testing::HasSubstr;

TEST(Roll, NamesARankThatFallsSilentWithItsLastOperation) {
  Roll roll(4, absl::Seconds(1));
  const absl::Time now = absl::Now();
  for (const int rank : {0, 1, 2}) ASSERT_TRUE(roll.Come(rank, now).ok());
  EXPECT_EQ(roll.Missing(now), "rank 3 has not come");
  EXPECT_EQ(roll.Missing(now + absl::Seconds(9)), "rank 3 has not come");  // nobody beats before all have come
  ASSERT_TRUE(roll.Come(3, now).ok());
  EXPECT_EQ(roll.Missing(now), "");
  LastOperation last;
  last.number = 41;
  last.kind = OpKind::kAllGather;
  last.dtype = device::DType::kFloat32;
  last.count = 1024;
  std::string("block.3").copy(last.label.data(), 7);
  for (const int rank : {0, 1, 3}) roll.Beat(rank, {}, now + absl::Seconds(2));
  roll.Beat(2, last, now);
  EXPECT_EQ(roll.Missing(now + absl::Seconds(2)),
            "rank 2 is missing (silent for 2.0s); its last operation was all-gather #41 'block.3' (fp32, 1024 elements)");
  std::string("shard group 2-3").copy(last.group.data(), 15);
  roll.Beat(2, last, now);
  EXPECT_THAT(roll.Missing(now + absl::Seconds(2)), HasSubstr("#41 'block.3' (fp32, 1024 elements) in shard group 2-3"));
  roll.Lose(2, now + absl::Seconds(2));
  EXPECT_THAT(roll.Missing(now + absl::Seconds(2)),
              HasSubstr("rank 2 is missing (its process or its network ended 0.0s ago)"));
  roll.Leave(1, now);
  EXPECT_EQ(roll.Missing(now + absl::Seconds(2)).find("rank 1"), std::string::npos);
}

}  // namespace
}  // namespace zeroshard::comm
