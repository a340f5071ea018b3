#include "zeroshard/comm/network_address.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A host with containers: docker0 and a veth come before the network that others are on.
std::vector<NetworkAddress> Host() {
  return {{.interface = "lo", .text = "127.0.0.1", .family = AF_INET, .loopback = true},
          {.interface = "docker0", .text = "172.17.0.1", .family = AF_INET},
          {.interface = "veth3a", .text = "10.9.0.1", .family = AF_INET},
          {.interface = "eth0", .text = "fd00::3", .family = AF_INET6},
          {.interface = "eth0", .text = "10.0.0.3", .family = AF_INET},
          {.interface = "eth1", .text = "fd00::4", .family = AF_INET6},
          {.interface = "lo", .text = "::1", .family = AF_INET6, .loopback = true}};
}

std::string Chosen(std::string_view wanted, const AddressNeed& need = {}) {
  const auto address = ChooseAddress(Host(), wanted, need);
  return address.ok() ? address->text : std::string(address.status().message());
}

TEST(ChooseAddress, TakesAnAddressANameOrTheBeginningOfOne) {
  EXPECT_EQ(Chosen("10.0.0.3"), "10.0.0.3");
  EXPECT_EQ(Chosen("fd00::3"), "fd00::3");
  EXPECT_EQ(Chosen("fd00:0:0::0003"), "fd00::3");
  EXPECT_EQ(Chosen("eth0"), "10.0.0.3");
  EXPECT_EQ(Chosen("eth1"), "fd00::4");
  EXPECT_EQ(Chosen("veth"), "10.9.0.1");
  EXPECT_EQ(Chosen("lo", {.single_host = false}), "127.0.0.1");
}

TEST(ChooseAddress, LeavesOutWhatIsExcluded) {
  EXPECT_EQ(Chosen("^docker,veth", {.single_host = false}), "10.0.0.3");
  EXPECT_EQ(Chosen("^docker,veth,10.0.0.3", {.single_host = false}), "fd00::3");
  EXPECT_EQ(Chosen("^lo,docker,veth", {.single_host = true}), "10.0.0.3");
  EXPECT_THAT(Chosen("^lo,d,v,e"), HasSubstr("leaves no interface"));
}

TEST(ChooseAddress, DefaultsToLoopbackOnOneHost) {
  EXPECT_EQ(Chosen("", {.single_host = true}), "127.0.0.1");
  EXPECT_EQ(Chosen("", {.single_host = true, .master_address = "10.0.0.9"}), "127.0.0.1");
}

TEST(ChooseAddress, NeverTakesLoopbackForSeveralHosts) {
  // As where the host's own name resolves to 127.0.1.1.
  for (const char* master : {"", "127.0.1.1", "localhost", "no.such.host.invalid"}) {
    const auto address = ChooseAddress(Host(), "", {.single_host = false, .master_address = master});
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_FALSE(address->loopback) << master;
  }
  const std::vector<NetworkAddress> alone = {Host()[0]};
  const auto none = ChooseAddress(alone, "", {.single_host = false});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("there are lo 127.0.0.1"));
}

TEST(ChooseAddress, ListsTheCandidatesWhereNothingFits) {
  for (const char* wanted : {"ib0", "10.0.0.4", "fd00::5"}) {
    EXPECT_THAT(Chosen(wanted), AllOf(HasSubstr(wanted), HasSubstr("docker0 172.17.0.1"), HasSubstr("eth0 10.0.0.3"),
                                      HasSubstr("eth0 fd00::3")));
  }
}

TEST(ListAddresses, HasLoopbackAndNoLinkLocalAddress) {
  const auto here = ListAddresses();
  ASSERT_TRUE(here.ok()) << here.status();
  bool loopback = false;
  for (const NetworkAddress& address : *here) {
    loopback = loopback || address.loopback;
    EXPECT_FALSE(address.text.starts_with("fe80:")) << address.text;
  }
  EXPECT_TRUE(loopback);
}

TEST(AddressTowards, IsLoopbackForLoopbackAndEmptyForNowhere) {
  EXPECT_EQ(AddressTowards("127.0.1.1").substr(0, 4), "127.");
  EXPECT_EQ(AddressTowards("no.such.host.invalid"), "");
}

}  // namespace
}  // namespace zeroshard::comm
