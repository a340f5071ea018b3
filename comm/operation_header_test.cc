#include "zeroshard/comm/operation_header.h"

#include <cstring>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

using device::DType;

Operation Sum() {
  Operation operation;
  operation.kind = OpKind::kAllReduce;
  operation.in_dtype = DType::kBfloat16;
  operation.out_dtype = DType::kFloat32;
  operation.sequence = 12;
  operation.count = 1024;
  operation.label = "block 3";
  return operation;
}

TEST(OperationHeader, SaysWhatWasCalled) {
  EXPECT_EQ(Describe(Sum()), "all-reduce #12 'block 3' (sum, bf16 -> fp32, 1024 elements)");
}

TEST(OperationHeader, AgreesWithItselfUnderAnotherLabel) {
  Operation other = Sum();
  other.label = "a label that is longer than a header has room for, which is cut";
  EXPECT_TRUE(CheckAgreement(MakeHeader(Sum(), 0, 4), MakeHeader(other, 3, 4), 3).ok());
}

TEST(OperationHeader, SaysWhatBothRanksCalled) {
  Operation other = Sum();
  other.count = 1026;
  const absl::Status told = CheckAgreement(MakeHeader(Sum(), 0, 4), MakeHeader(other, 3, 4), 3);
  EXPECT_TRUE(absl::IsFailedPrecondition(told));
  EXPECT_TRUE(
      absl::StrContains(told.message(), "rank 0 called all-reduce #12 'block 3' (sum, bf16 -> fp32, 1024 elements)"));
  EXPECT_TRUE(
      absl::StrContains(told.message(), "rank 3 called all-reduce #12 'block 3' (sum, bf16 -> fp32, 1026 elements)"));
}

// As CheckAgreement, for whoever has no room for the header.
TEST(OperationHeader, DigestsDifferWhereRanksDisagreeAndOnlyThere) {
  const OperationHeader mine = MakeHeader(Sum(), 0, 4);
  OperationHeader same = MakeHeader(Sum(), 3, 4);
  same.label = {'x'};
  EXPECT_EQ(Digest(mine), Digest(same));
  const auto changed = [&](auto change) {
    OperationHeader other = mine;
    change(other);
    return Digest(other) != Digest(mine) && !CheckAgreement(mine, other, 0).ok();
  };
  EXPECT_TRUE(changed([](OperationHeader& h) { h.magic += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.sequence += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.count += 2; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.count *= 80; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.layout += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.staged_bytes += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.world_size += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.root += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.segments += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.kind += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.op += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.in_dtype += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.out_dtype += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.schedules += 1; }));
  EXPECT_TRUE(changed([](OperationHeader& h) { h.carried += 1; }));
}

TEST(OperationHeader, ToldOfAnotherRankThanItCameFromIsRefused) {
  EXPECT_FALSE(CheckAgreement(MakeHeader(Sum(), 0, 4), MakeHeader(Sum(), 2, 4), 3).ok());
}

TEST(OperationHeader, IsShownAsItIsWhereItPrintsAndEscapedElse) {
  EXPECT_EQ(DescribeLast({}), "none");
  Operation operation = Sum();
  operation.label = "block 3";
  EXPECT_EQ(DescribeLast(MakeHeader(operation, 0, 2)), Describe(MakeHeader(operation, 0, 2)));
  operation.label = "a\nb\x80";
  EXPECT_THAT(DescribeLast(MakeHeader(operation, 0, 2)), ::testing::HasSubstr("'a\\nb\\x80'"));
}

// Whatever a stranger sends is described, and never agreed with.
TEST(OperationHeader, TakesAnyBytes) {
  std::mt19937_64 random(7);
  const OperationHeader mine = MakeHeader(Sum(), 0, 2);
  for (int i = 0; i < 20000; ++i) {
    OperationHeader theirs = mine;
    char bytes[sizeof(theirs)];
    std::memcpy(bytes, &theirs, sizeof(theirs));
    for (int changes = 0; changes < 1 + i % 40; ++changes) bytes[random() % sizeof(bytes)] = static_cast<char>(random());
    std::memcpy(&theirs, bytes, sizeof(theirs));
    EXPECT_FALSE(Describe(theirs).empty());
    CheckAgreement(mine, theirs, 1).IgnoreError();
  }
}

}  // namespace
}  // namespace zeroshard::comm
