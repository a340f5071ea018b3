// Gloo trains across hosts, with the bits of one host, whatever the hosts' networks look like; and a link that is cut is named.

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/hosts/network.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<std::string> Small(const std::vector<std::string>& more) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  std::vector<std::string> flags = {"--data=" + text, "--layers=1",  "--heads=2",  "--width=32",   "--context=24",
                                    "--batch=2",      "--threads=1", "--sample=0", "--timeout=60", "--stage=3"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::string Bits(std::vector<std::string> more) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  more.push_back("--summary=" + path);
  more.emplace_back("--steps=5");
  const ToolResult result = RunTool("tools/train", Small(more));
  EXPECT_EQ(result.code, 0) << result.errors;
  const Json summary = Json::parse(ReadFile(path), nullptr, false);
  return summary.is_object() ? summary["bits"].get<std::string>() : result.errors;
}

TEST(Hosts, TrainWithTheBitsOfOne) {
  const Network network(3);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  const std::string ssh = "--ssh=" + network.Ssh();
  const std::string two = Bits({"--nproc=2"}), three = Bits({"--nproc=3"}), four = Bits({"--nproc=4"});
  EXPECT_EQ(Bits({ssh, "--nproc=1", "--hosts=10.77.0.1,10.77.0.2"}), two);
  EXPECT_EQ(Bits({ssh, "--nproc=1", "--hosts=10.77.0.1,10.77.0.2,10.77.0.3"}), three);
  // Names, of which each host takes its own for loopback; two ranks on each.
  EXPECT_EQ(Bits({ssh, "--nproc=2", "--hosts=node1,node2"}), four);
  EXPECT_EQ(Bits({ssh, "--nproc=1", "--hosts=fd77::1,fd77::2"}), two);
  EXPECT_EQ(Bits({ssh, "--nproc=1", "--hosts=fd77::1,10.77.0.2"}), two);
  EXPECT_EQ(Bits({ssh, "--nproc=1", "--hosts=node1,node2", "--bind=eth"}), two);
  EXPECT_EQ(Bits({ssh, "--nproc=1", "--hosts=node1,node2", "--bind=^docker,veth,lo"}), two);
}

TEST(Hosts, TrainOverALinkOfOneGigabit) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  if (!network.Shape("1gbit")) GTEST_SKIP() << "this kernel does not shape links (tc tbf)";
  EXPECT_EQ(Bits({"--ssh=" + network.Ssh(), "--nproc=1", "--hosts=node1,node2"}), Bits({"--nproc=2"}));
}

TEST(Hosts, NameWhatThereIsWhereAnInterfaceIsMissing) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  const ToolResult result = RunTool(
      "tools/train", Small({"--steps=5", "--ssh=" + network.Ssh(), "--nproc=1", "--hosts=node1,node2", "--bind=ib0"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("ib0"), HasSubstr("docker0 172.17.0.1"), HasSubstr("eth0 10.77.0.")));
}

TEST(Hosts, NameTheRankWhoseLinkIsCut) {
  const Network network(3);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  ToolProcess train("tools/train", Small({"--steps=1000000", "--timeout=10", "--ssh=" + network.Ssh(), "--nproc=1",
                                          "--hosts=node1,node2,node3"}));
  ASSERT_TRUE(train.AwaitError("step 1/"));
  network.CutLinkOf(3);
  const auto cut = std::chrono::steady_clock::now();
  const ToolResult result = train.Wait(std::chrono::seconds(60));
  EXPECT_EQ(result.code, 4) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("rank 2 is missing (silent for "));
  EXPECT_THAT(result.errors, HasSubstr("its last operation was "));
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - cut).count(), 10 + 10);
}

}  // namespace
}  // namespace zeroshard::integration_tests
