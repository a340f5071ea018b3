// What crosses between hosts crosses once, however many ranks each of them has.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/hosts/network.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

constexpr int64_t kBytes = int64_t{4} << 20;

// `part`: of the whole, what each of two hosts has to send to the other.
struct Collective {
  std::string op;
  double part;
};

class LinkBytes : public ::testing::TestWithParam<std::string> {
 protected:
  // What the host that sends most sent while a collective ran so many times at least.
  int64_t Sent(const Network& network, const std::string& op, int iterations) const {
    const int64_t before[] = {network.SentBy(1), network.SentBy(2)};
    // Namespaces of one machine share its memory, which UCX would find.
    const std::vector<std::string> environment =
        GetParam() == "ucx" ? std::vector<std::string>{"UCX_TLS=tcp"} : std::vector<std::string>{};
    const ToolResult result =
        RunTool("tools/comm_bench",
                {"--backend=" + GetParam(), "--ssh=" + network.Ssh(), "--hosts=node1,node2", "--nproc=2", "--ops=" + op,
                 absl::StrCat("--sizes=", kBytes), absl::StrCat("--iterations=", iterations), "--json=-"},
                environment);
    EXPECT_EQ(result.code, 0) << result.errors;
    return std::max(network.SentBy(1) - before[0], network.SentBy(2) - before[1]);
  }
};
INSTANTIATE_TEST_SUITE_P(LinkBytes, LinkBytes, ::testing::Values("gloo", "ucx"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(LinkBytes, AreThoseOfTwoRanks) {
  const Network network(2);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  for (const Collective& collective : {Collective{"all_reduce", 1}, Collective{"reduce_scatter", 0.5},
                                       Collective{"all_gather", 0.5}, Collective{"broadcast", 1}, Collective{"reduce", 1}}) {
    constexpr int kFew = 2, kMany = 12;
    const int64_t few = Sent(network, collective.op, kFew), many = Sent(network, collective.op, kMany);
    const double least = collective.part * kBytes;
    // Not of the difference: what TCP sends again while it runs a few times lessens that.
    EXPECT_GE(static_cast<double>(many) / kMany, least) << collective.op;
    EXPECT_LE(static_cast<double>(many - few) / (kMany - kFew), 1.1 * least) << collective.op;
  }
}

}  // namespace
}  // namespace zeroshard::integration_tests
