// A folder is a layer, and sees only those below it: held against the build's own graph of dependencies.
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard {
namespace {

using ::testing::StartsWith;

std::vector<std::string> DependenciesOf(const std::string& room) {
  std::ifstream file("integration_tests/layers/deps_of_" + room);
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) labels.push_back(line);
  return labels;
}

struct Rule {
  std::string room;
  std::vector<std::string> never;
};

class LayersTest : public ::testing::TestWithParam<Rule> {};

TEST_P(LayersTest, SeesOnlyWhatLiesBelow) {
  const std::vector<std::string> labels = DependenciesOf(GetParam().room);
  ASSERT_THAT(labels, ::testing::Contains(StartsWith("//" + GetParam().room)));
  for (const std::string& above : GetParam().never) {
    EXPECT_THAT(labels, ::testing::Each(::testing::Not(StartsWith("//" + above)))) << GetParam().room << " sees " << above;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rooms, LayersTest,
    ::testing::Values(Rule{"device",
                           {"comm", "backends", "model", "optim", "zero", "trainer", "tools", "integration_tests"}},
                      Rule{"comm", {"backends", "model", "optim", "zero", "trainer", "tools", "integration_tests"}},
                      Rule{"model", {"comm", "backends", "optim", "zero", "trainer", "tools", "integration_tests"}},
                      Rule{"optim", {"comm", "backends", "model", "zero", "trainer", "tools", "integration_tests"}},
                      Rule{"zero", {"backends", "trainer", "tools", "integration_tests"}},
                      Rule{"trainer", {"backends", "tools", "integration_tests"}}),
    [](const auto& rule) { return rule.param.room; });

}  // namespace
}  // namespace zeroshard
