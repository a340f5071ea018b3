// Ranks on several hosts train with the bits of one host, whatever the hosts' networks look like; and a link that is cut is named.

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/comm/socket.h"
#include "zeroshard/integration_tests/hosts/network.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr int kPort = 29577;  // where the tests' ranks meet when a test says where

std::vector<std::string> Small(const std::vector<std::string>& more) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  std::vector<std::string> flags = {"--data=" + text, "--layers=1",  "--heads=2",  "--width=32",   "--context=24",
                                    "--batch=2",      "--threads=1", "--sample=0", "--timeout=60", "--stage=3"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Namespaces of one machine share its memory, which UCX would find: here it may not, as it cannot between machines.
std::vector<std::string> Environment(const std::string& backend) {
  return backend == "ucx" ? std::vector<std::string>{"UCX_TLS=tcp"} : std::vector<std::string>{};
}

std::string Bits(std::vector<std::string> more, const std::vector<std::string>& environment = {}) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  more.push_back("--summary=" + path);
  more.emplace_back("--steps=5");
  const ToolResult result = RunTool("tools/train", Small(more), environment);
  EXPECT_EQ(result.code, 0) << result.errors;
  const Json summary = Json::parse(ReadFile(path), nullptr, false);
  return summary.is_object() ? summary["bits"].get<std::string>() : result.errors;
}

// Of so many ranks in one process.
std::string BitsOfOneHost(int ranks) {
  static std::map<int, std::string> known;
  std::string& bits = known[ranks];
  if (bits.empty()) bits = Bits({"--backend=in_process", absl::StrCat("--nproc=", ranks)});
  return bits;
}

class Hosts : public ::testing::TestWithParam<std::string> {
 protected:
  // Ranks of the test's backend on a network's hosts: flags, and bits after five steps.
  std::vector<std::string> On(const Network& network, const std::string& hosts,
                              const std::vector<std::string>& more = {}) const {
    std::vector<std::string> flags = {"--backend=" + GetParam(), "--ssh=" + network.Ssh(), "--nproc=1", "--hosts=" + hosts};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  std::string BitsOn(const Network& network, const std::string& hosts, const std::vector<std::string>& more = {}) const {
    return Bits(On(network, hosts, more), Environment(GetParam()));
  }
  // What comes of a run that goes on until `harm` is done to it in its first steps.
  template <class Harm>
  ToolResult RunUntil(const Network& network, const std::vector<std::string>& more, Harm harm) const {
    ToolProcess train("tools/train", Small(On(network, "node1,node2,node3", more)), Environment(GetParam()));
    EXPECT_TRUE(train.AwaitError("step 1/"));
    harm();
    return train.Wait(std::chrono::seconds(60));
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, Hosts, ::testing::Values("gloo", "ucx"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(Hosts, TrainWithTheBitsOfOne) {
  const Network network(3);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  EXPECT_EQ(BitsOn(network, "10.77.0.1,10.77.0.2"), BitsOfOneHost(2));
  EXPECT_EQ(BitsOn(network, "10.77.0.1,10.77.0.2,10.77.0.3"), BitsOfOneHost(3));
  // Names, of which each host takes its own for loopback; two ranks on each.
  EXPECT_EQ(BitsOn(network, "node1,node2", {"--nproc=2"}), BitsOfOneHost(4));
}

TEST_P(Hosts, TrainWhateverFamilyTheirAddressesHave) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  EXPECT_EQ(BitsOn(network, "fd77::1,fd77::2"), BitsOfOneHost(2));
  EXPECT_EQ(BitsOn(network, "fd77::1,10.77.0.2"), BitsOfOneHost(2));
  network.TakeIpv4From(2);  // docker0 and a stray veth have theirs still.
  EXPECT_EQ(BitsOn(network, "fd77::1,fd77::2"), BitsOfOneHost(2));
}

TEST_P(Hosts, TrainOnTheInterfacesThatBindNames) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  EXPECT_EQ(BitsOn(network, "node1,node2", {"--bind=eth"}), BitsOfOneHost(2));
  EXPECT_EQ(BitsOn(network, "node1,node2", {"--bind=^docker,veth,lo"}), BitsOfOneHost(2));
}

TEST_P(Hosts, TrainOverALinkOfOneGigabit) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  if (!network.Shape("1gbit")) GTEST_SKIP() << "this kernel does not shape links (tc tbf)";
  EXPECT_EQ(BitsOn(network, "node1,node2"), BitsOfOneHost(2));
}

TEST_P(Hosts, NameTheRankWhoseLinkIsCut) {
  const Network network(3);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  std::chrono::steady_clock::time_point cut;
  const ToolResult result = RunUntil(network, {"--steps=1000000", "--timeout=5"}, [&] {
    network.CutLinkOf(3);
    cut = std::chrono::steady_clock::now();
  });
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("rank 2 is missing (silent for "));
  EXPECT_THAT(result.errors, HasSubstr("its last operation was "));
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - cut).count(), 5 + 10);
}

// Rank 0 hears both, each of the two only rank 0.
TEST_P(Hosts, NameOneOfTheTwoWhoseLinkIsCut) {
  const Network network(3);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  std::chrono::steady_clock::time_point cut;
  const ToolResult result = RunUntil(network, {"--steps=1000000", "--timeout=5"}, [&] {
    network.CutLinkBetween(2, 3);
    cut = std::chrono::steady_clock::now();
  });
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(result.errors, AnyOf(HasSubstr("rank 1 does not answer: its process is stopped, or cut off"),
                                   HasSubstr("rank 2 does not answer: its process is stopped, or cut off")));
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - cut).count(), 5 + 10);
}

// Hosts that share no memory are told by looking; these share it.
TEST(HostsOfOneMachine, TrainOverTheMemoryThatTheyShare) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  EXPECT_EQ(Bits({"--backend=ucx", "--ssh=" + network.Ssh(), "--nproc=1", "--hosts=node1,node2"}), BitsOfOneHost(2));
}

TEST(HostsThatCannotMeet, NameWhatThereIsWhereAnInterfaceIsMissing) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  const ToolResult result = RunTool(
      "tools/train", Small({"--steps=5", "--ssh=" + network.Ssh(), "--nproc=1", "--hosts=node1,node2", "--bind=ib0"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("ib0"), HasSubstr("docker0 172.17.0.1"), HasSubstr("eth0 10.77.0.")));
}

TEST(HostsThatCannotMeet, NameThePortThatIsTaken) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  const comm::Socket somebody = network.Listen(1, kPort);
  ASSERT_TRUE(somebody);
  const ToolResult result =
      RunTool("tools/train", Small({"--steps=5", "--ssh=" + network.Ssh(), "--nproc=1", "--hosts=node1,node2",
                                    absl::StrCat("--store=tcp:node1:", kPort)}));
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.errors, AllOf(HasSubstr(absl::StrCat("cannot listen on 10.77.0.1 port ", kPort)),
                                   HasSubstr("give --store=tcp:HOST:PORT another")));
}

}  // namespace
}  // namespace zeroshard::integration_tests
