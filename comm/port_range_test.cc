#include "zeroshard/comm/port_range.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/testing/free_ports.h"

namespace zeroshard::comm {
namespace {

using ::testing::AllOf;
using testing::FreePorts;
using ::testing::HasSubstr;

constexpr int kFirst = 21000;  // other suites begin elsewhere

TEST(PortRange, IsReadFromTwoPortsOrOne) {
  EXPECT_EQ(ParsePortRange("20000-20099")->size(), 100);
  EXPECT_EQ(ParsePortRange("20000")->Describe(), "20000");
  EXPECT_EQ(ParsePortRange("1-65535")->Describe(), "1-65535");
  EXPECT_TRUE(ParsePortRange("")->any());
}

TEST(PortRange, IsRefusedWithAnExampleWhereItIsNone) {
  for (const char* text : {"x", "0-5", "5-3", "1-65536", "-5", "5-", "1-2-3", " 5", "5:6", "99999999999999999999"}) {
    const auto range = ParsePortRange(text);
    EXPECT_TRUE(absl::IsInvalidArgument(range.status())) << text;
    EXPECT_THAT(range.status().message(), AllOf(HasSubstr(text), HasSubstr("--port_range=20000-20099")));
  }
}

TEST(PortRange, EveryPortIsTakenOnceAndThenNone) {
  const PortRange range = FreePorts(4, kFirst);
  ASSERT_EQ(range.size(), 4);
  std::vector<Socket> listeners;
  std::set<int> ports;
  for (int i = 0; i < 4; ++i) {
    auto listener = ListenWithin("127.0.0.1", range);
    ASSERT_TRUE(listener.ok()) << listener.status();
    ports.insert(BoundPort(listener->get()));
    listeners.push_back(*std::move(listener));
  }
  EXPECT_EQ(ports.size(), 4U);
  EXPECT_EQ(*ports.begin(), range.first);
  EXPECT_EQ(*ports.rbegin(), range.last);
  const auto none = ListenWithin("127.0.0.1", range);
  EXPECT_TRUE(absl::IsAlreadyExists(none.status()));
  EXPECT_THAT(none.status().message(), AllOf(HasSubstr("127.0.0.1"), HasSubstr("all 4 ports"), HasSubstr(range.Describe())));
}

TEST(PortRange, AnyIsTheSystemsChoice) {
  const auto listener = ListenWithin("127.0.0.1", {});
  ASSERT_TRUE(listener.ok());
  EXPECT_GT(BoundPort(listener->get()), 0);
}

TEST(PortRange, AnAddressOfAnotherHostIsTheSystemsError) {
  const auto listener = ListenWithin("192.0.2.1", {.first = 20000, .last = 20010});
  EXPECT_TRUE(absl::IsUnavailable(listener.status()));
  EXPECT_THAT(listener.status().message(), HasSubstr("192.0.2.1 port "));
}

}  // namespace
}  // namespace zeroshard::comm
