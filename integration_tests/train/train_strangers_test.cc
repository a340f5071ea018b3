// Strangers on every port of a run, the rendezvous' too, from its first moment to its last: the same bits.
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/comm/testing/strangers.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using Json = nlohmann::json;

std::vector<std::string> Flags(const std::string& backend, const std::string& summary) {
  static const std::string text = WriteFile("text.txt", SomeText(60'000));
  return {"--data=" + text, "--layers=1",   "--heads=2", "--width=32", "--context=24", "--batch=2", "--threads=1",
          "--sample=0",     "--timeout=60", "--stage=3", "--nproc=3",  "--steps=60",   backend,     "--summary=" + summary};
}

std::string BitsOf(const ToolResult& result, const std::string& summary) {
  EXPECT_EQ(result.code, 0) << result.errors;
  const Json read = Json::parse(ReadFile(summary), nullptr, false);
  return read.is_object() ? read["bits"].get<std::string>() : result.errors;
}

TEST(TrainAmongStrangers, GivesTheSameBits) {
  const std::string alone = ::testing::TempDir() + "/alone.json", among = ::testing::TempDir() + "/among.json";
  const std::string bits = BitsOf(RunTool("tools/train", Flags("--backend=gloo", alone)), alone);
  const std::vector<std::pair<std::string, std::vector<std::string>>> carriers = {
      {"--backend=gloo", {}}, {"--backend=ucx", {}}, {"--backend=ucx", {"UCX_TLS=tcp"}}};
  for (const auto& [backend, environment] : carriers) {
    ToolProcess train("tools/train", Flags(backend, among), environment);
    comm::testing::StrangersEverywhere everywhere;
    // The starter's children are the ranks, as soon as they are there.
    for (int i = 0; i < 2000 && train.Children().size() < 3; ++i) usleep(1000);
    everywhere.Follow(train.Children());
    const ToolResult result = train.Wait();
    EXPECT_EQ(BitsOf(result, among), bits) << backend;
    EXPECT_GT(everywhere.strangers().answered(), 10) << backend;
    // Turned away, and said so once a second at most.
    size_t said = 0;
    for (size_t at = 0; (at = result.errors.find("turned a connection away", at)) != std::string::npos; ++at) ++said;
    EXPECT_GT(said, 0U) << backend;
    EXPECT_LE(said, 3 * (2 + static_cast<size_t>(result.seconds)) * 2) << backend;
  }
}

}  // namespace
}  // namespace zeroshard::integration_tests
