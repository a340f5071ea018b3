#include "zeroshard/trainer/memory_table.h"

#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/model/gpt_options.h"

namespace zeroshard::trainer {
namespace {

TEST(MemoryTable, ShowsWhatIsHeldBesideEveryStage) {
  const auto units = model::GptUnits({.layers = 2, .heads = 2, .width = 64, .context = 64, .vocab = 1024});
  ASSERT_TRUE(units.ok());
  const auto layout = zero::Layout::Create(*units, {.world_size = 2});
  ASSERT_TRUE(layout.ok());
  std::vector<RankReport> reports(2);
  reports[1].ledger[static_cast<size_t>(device::Use::kParameters)].now = 4 * layout->total_elements() / 2;
  reports[1].ledger[static_cast<size_t>(device::Use::kActivations)].now = 5'000'000;
  zero::EngineOptions options;
  options.stage = 3;
  const std::string table = MemoryTable(*layout, options, reports);
  std::istringstream rows(table);
  std::string word, header;
  std::getline(rows, header);
  EXPECT_THAT(header, ::testing::HasSubstr("*stage 3"));
  double held = 0, stage[4] = {};
  rows >> word >> held >> stage[0] >> stage[1] >> stage[2] >> stage[3];
  EXPECT_EQ(word, "parameters");
  EXPECT_NEAR(held, stage[3], 0.011);
  EXPECT_NEAR(stage[0], 2 * stage[3], 0.011);
  EXPECT_EQ(stage[2], stage[0]);
  EXPECT_THAT(table, ::testing::HasSubstr("activations"));
}

}  // namespace
}  // namespace zeroshard::trainer
