#include "zeroshard/backends/nccl/nccl_environment.h"

#include <cstdlib>
#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::backends {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(NcclEnvironment, TakesWhatFitsOfTheInterfacesThatAreUp) {
  const std::vector<comm::NetworkAddress> here = {{.interface = "lo"}, {.interface = "eth0"}, {.interface = "docker0"}};
  for (const char* fits : {"", "eth", "eth0", "=eth0", "ib,eth", "^docker", "^=eth0", "eth0:1234"}) {
    EXPECT_TRUE(CheckInterface(fits, here).ok()) << fits;
  }
  for (const char* none : {"ib", "=eth", "=ib0,eth", "^lo,eth,docker", "^=lo,eth0,docker0"}) {
    const absl::Status status = CheckInterface(none, here);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << none;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string("NCCL_SOCKET_IFNAME=") + none + ": no network interface"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("docker0, eth0, lo")) << none;
  }
}

TEST(NcclEnvironment, RefusesWhatWouldAbortOrReturnTooEarly) {
  for (const auto& [name, refused, taken] :
       {std::tuple("NCCL_COMM_BLOCKING", "0", "0x1"), std::tuple("NCCL_COMM_SPLIT_SHARE_RESOURCES", "1", "0")}) {
    EXPECT_TRUE(CheckVariables().ok());
    setenv(name, refused, 1);
    const absl::Status status = CheckVariables();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith(std::string(name) + "=" + refused + ": "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("unset the variable"));
    setenv(name, taken, 1);
    EXPECT_TRUE(CheckVariables().ok());
    unsetenv(name);
  }
}

TEST(NcclEnvironment, LeavesWhatTheUserSetAndShowsIt) {
  setenv("NCCL_RAS_ENABLE", "1", 1);
  setenv("NCCL_ALGO", "Ring", 1);
  unsetenv("NCCL_RUNTIME_CONNECT");
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  unsetenv("NCCL_SOCKET_IFNAME");
  EXPECT_THAT(PrepareEnvironment({.rank = 3, .interface = "=eth7", .share_gpu = true}),
              ElementsAre("NCCL_ALGO=Ring", "NCCL_RAS_ENABLE=1"));
  EXPECT_STREQ(std::getenv("NCCL_RAS_ENABLE"), "1");
  EXPECT_STREQ(std::getenv("NCCL_RUNTIME_CONNECT"), "0");
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  EXPECT_STREQ(std::getenv("NCCL_COMM_BLOCKING"), "1");
  EXPECT_STREQ(std::getenv("NCCL_COMM_SPLIT_SHARE_RESOURCES"), "0");
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=eth7");
  EXPECT_STREQ(std::getenv("NCCL_HOSTID"), "zeroshard-rank-3");
  // What was set by us is not taken for the user's.
  EXPECT_THAT(PrepareEnvironment({}), ElementsAre("NCCL_ALGO=Ring", "NCCL_RAS_ENABLE=1"));
}

}  // namespace
}  // namespace zeroshard::backends
