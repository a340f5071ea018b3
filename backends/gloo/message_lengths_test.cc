#include "zeroshard/backends/gloo/message_lengths.h"

#include "gtest/gtest.h"

namespace zeroshard::backends {
namespace {

TEST(MessageLengths, HoldsTheNthAnnouncementAgainstTheNthTransferWhicheverComesFirst) {
  MessageLengths lengths;
  EXPECT_EQ(lengths.Expect(10), std::nullopt);
  EXPECT_EQ(lengths.Expect(20), std::nullopt);
  EXPECT_FALSE(lengths.Announce(10).differs);
  const MessageLengths::Announcement second = lengths.Announce(21);
  EXPECT_TRUE(second.differs);
  EXPECT_EQ(second.index, 1u);
  EXPECT_FALSE(lengths.Announce(30).differs);
  EXPECT_FALSE(lengths.Announce(40).differs);
  EXPECT_EQ(lengths.Expect(30), std::nullopt);
  EXPECT_EQ(lengths.Expect(41), 40);
}

TEST(MessageLengths, RefusesMoreAnnouncementsThanMayBeUnderWay) {
  MessageLengths lengths;
  int announced = 0;
  while (lengths.Announce(1).fits) ASSERT_LT(++announced, 100000);
  EXPECT_GE(announced, 32);
  EXPECT_EQ(lengths.Expect(1), std::nullopt);
  EXPECT_TRUE(lengths.Announce(1).fits);
}

}  // namespace
}  // namespace zeroshard::backends
