#include "zeroshard/comm/rendezvous/service_address.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::vector<NetworkAddress> Host() {
  return {{.interface = "lo", .text = "127.0.0.1", .loopback = true},
          {.interface = "docker0", .text = "172.17.0.1"},
          {.interface = "eth0", .text = "10.0.0.3"},
          {.interface = "eth0", .text = "fd00::3", .family = AF_INET6}};
}

using Addresses = std::vector<std::string>;

Addresses Listening(const Addresses& resolved, const ListenNeed& need) {
  const auto chosen = ChooseListeningAddresses(Host(), resolved, {"node", 1}, need);
  return chosen.ok() ? *chosen : Addresses{Message(chosen.status())};
}

TEST(ServiceAddress, ListensNoWiderThanTheJobNeeds) {
  EXPECT_EQ(Listening({"127.0.0.1"}, {.single_host = true}), Addresses{"127.0.0.1"});
  EXPECT_EQ(Listening({"10.0.0.3"}, {.single_host = false}), Addresses{"10.0.0.3"});
  EXPECT_EQ(Listening({"fd00::3", "10.0.0.3"}, {.single_host = false}), (Addresses{"fd00::3", "10.0.0.3"}));
  EXPECT_EQ(Listening({"10.0.0.3"}, {.bind = "fd00::3"}), Addresses{"fd00::3"});
  EXPECT_EQ(Listening({"10.0.0.3"}, {.bind = "docker"}), Addresses{"172.17.0.1"});
  EXPECT_EQ(Listening({"127.0.0.1"}, {.single_host = true, .bind = "^lo,docker"}), Addresses{"10.0.0.3"});
}

TEST(ServiceAddress, IsReachedFromOtherHostsWhereTheHostsOwnNameIsLoopback) {
  const Addresses chosen = Listening({"127.0.1.1"}, {.single_host = false});
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_EQ(chosen[0], "127.0.1.1");  // for the ranks of rank 0's host
  EXPECT_THAT(chosen[1], Not(HasSubstr("127.")));
}

TEST(ServiceAddress, ListsWhatThereIsWhereNothingFits) {
  for (const ListenNeed& need : {ListenNeed{}, ListenNeed{.bind = "ib0"}, ListenNeed{.bind = "10.0.0.9"}}) {
    const Addresses chosen = Listening({"10.0.0.9"}, need);
    EXPECT_THAT(chosen[0], AllOf(HasSubstr("docker0 172.17.0.1"), HasSubstr("eth0 10.0.0.3"), HasSubstr("eth0 fd00::3")));
  }
}

}  // namespace
}  // namespace zeroshard::comm
