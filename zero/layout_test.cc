#include "zeroshard/zero/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace zeroshard::zero {
namespace {

using model::UnitSpec;

Layout Make(const std::vector<UnitSpec>& units, const LayoutOptions& options) {
  absl::StatusOr<Layout> layout = Layout::Create(units, options);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

std::vector<UnitSpec> OddModel() {
  return {{.name = "embedding",
           .parameters = {{.name = "wte", .shape = {101, 39}}, {.name = "wpe", .shape = {17, 39}, .trainable = false}},
           .backward_reads_parameters = false},
          {.name = "block",
           .parameters = {{.name = "w", .shape = {39, 3}}, {.name = "b", .shape = {3}}, {.name = "none", .shape = {0, 4}}}},
          {.name = "frozen", .parameters = {{.name = "f", .shape = {5}, .trainable = false}}},
          {.name = "head",
           .parameters = {{.name = "norm", .shape = {2}}, {.name = "lm_head", .shape = {101, 39}, .tied_to = "wte"}}}};
}

// What holds for every layout: parameters are aligned, disjoint and inside; ranks' parts are aligned, disjoint, and the whole.
void ExpectSound(const Layout& layout) {
  int64_t full = 0;
  std::vector<int64_t> owned(layout.world_size());
  for (const Section& section : layout.sections()) {
    EXPECT_EQ(section.full_first, full);
    full += section.elements;
    EXPECT_EQ(section.bounds.front(), 0);
    EXPECT_LE(section.bounds.back(), section.elements);
    EXPECT_EQ(section.elements % (kAlignmentElements * layout.world_size()), 0);
    for (int r = 0; r < layout.world_size(); ++r) {
      EXPECT_EQ(section.Owned(r).first % kAlignmentElements, 0);
      EXPECT_GE(section.Owned(r).count, 0);
      EXPECT_EQ(section.shard_first[r], owned[r]);
      owned[r] += section.Owned(r).count;
    }
    int64_t end = 0;
    for (int p : section.parameters) {
      const Parameter& parameter = layout.parameters()[p];
      EXPECT_EQ(parameter.spec.trainable, section.trainable);
      EXPECT_EQ(parameter.first % kAlignmentElements, 0);
      EXPECT_GE(parameter.first, end);
      end = parameter.first + parameter.elements;
    }
    EXPECT_LE(end, section.elements);
  }
  EXPECT_EQ(full, layout.total_elements());
  for (int r = 0; r < layout.world_size(); ++r) EXPECT_EQ(owned[r], layout.OwnedTotal(r));
}

TEST(Layout, EveryElementHasOneOwnerInEveryPartitionAndWorld) {
  for (int world = 1; world <= 6; ++world) {
    for (bool round_robin : {false, true}) {
      const Layout flat = Make(OddModel(), {.round_robin_gradients = round_robin, .world_size = world});
      ExpectSound(flat);
      for (const Section& section : flat.sections()) {
        EXPECT_EQ(section.bounds.back(), section.elements);
        for (int r = 0; r < world; ++r) EXPECT_EQ(section.Owned(r).count, section.elements / world);
      }
    }
    for (Ownership owner : {Ownership::kRoundRobin, Ownership::kContiguous, Ownership::kBalanced}) {
      const Layout tensor = Make(OddModel(), {.partition = Partition::kTensor, .owner = owner, .world_size = world});
      ExpectSound(tensor);
      for (const Parameter& p : tensor.parameters()) {
        if (p.section < 0) continue;
        int owners = 0;
        for (int r = 0; r < world; ++r) owners += Intersect(p.range(), tensor.sections()[p.section].Owned(r)).count > 0;
        EXPECT_EQ(owners, 1) << p.spec.name;
      }
    }
  }
}

TEST(Layout, AParameterMayStraddleRanksAndAUnitEndsPadded) {
  const Layout layout =
      Make({{.name = "u", .parameters = {{.name = "a", .shape = {100}}, {.name = "b", .shape = {30}}}}}, {.world_size = 2});
  EXPECT_EQ(layout.trainable_elements(), 256);
  EXPECT_EQ(layout.parameters()[1].first, 128);
  EXPECT_EQ(layout.OwnedTrainable(0), 128);
  const Layout three = Make({{.name = "u", .parameters = {{.name = "a", .shape = {300}}}}}, {.world_size = 3});
  EXPECT_EQ(three.trainable_elements(), 384);
  EXPECT_EQ(Intersect(three.parameters()[0].range(), three.sections()[0].Owned(2)).count, 300 - 256);
}

TEST(Layout, GradientsAndStateCountTheTrainableOnly) {
  const Layout layout = Make(OddModel(), {.world_size = 4});
  EXPECT_EQ(layout.trainable_sections(), 3);  // wte, block, head; the embedding's own one is frozen
  EXPECT_EQ(layout.trainable_elements(), RoundUp(101 * 39, 256) + RoundUp(RoundUp(39 * 3, 64) + 64, 256) + 256);
  EXPECT_EQ(layout.frozen_elements(), RoundUp(17 * 39, 256) + 256);
  EXPECT_EQ(layout.model_elements(), 101 * 39 + 17 * 39 + 39 * 3 + 3 + 5 + 2);
}

TEST(Layout, ATiedParameterIsOneStorageInASectionOfItsOwn) {
  const Layout layout = Make(OddModel(), {.world_size = 2});
  EXPECT_EQ(layout.Find("wte"), layout.Find("lm_head"));
  const Section& shared = layout.sections()[layout.parameters()[*layout.Find("wte")].section];
  EXPECT_TRUE(shared.shared);
  EXPECT_EQ(shared.units, (std::vector<int>{0, 3}));
  EXPECT_EQ(shared.contributions, 2);
}

TEST(Layout, FewerParametersThanRanksAndEmptyTensorsAreOrdinary) {
  const Layout tiny = Make({{.name = "u", .parameters = {{.name = "a", .shape = {3}}, {.name = "e", .shape = {0, 4}}}}},
                           {.partition = Partition::kTensor, .world_size = 5});
  ExpectSound(tiny);
  EXPECT_EQ(tiny.OwnedTrainable(0), 64);
  EXPECT_EQ(tiny.OwnedTrainable(4), 0);
  const Layout nothing =
      Make({{.name = "u", .parameters = {{.name = "e", .shape = {0}}}}, {.name = "v", .parameters = {}}}, {.world_size = 3});
  EXPECT_EQ(nothing.total_elements(), 0);
  EXPECT_EQ(nothing.sections().size(), 0u);
}

TEST(Layout, BalancedOwnersDifferByNoMoreThanTheLargestTensor) {
  std::vector<UnitSpec> units;
  for (int64_t i = 0; i < 20; ++i)
    units.push_back(
        {.name = "u", .parameters = {{.name = std::string(1, static_cast<char>('a' + i)), .shape = {64 * (i + 1)}}}});
  const Layout layout = Make(units, {.partition = Partition::kTensor, .world_size = 3});
  int64_t least = layout.OwnedTrainable(0);
  int64_t most = least;
  for (int r = 0; r < 3; ++r) {
    least = std::min(least, layout.OwnedTrainable(r));
    most = std::max(most, layout.OwnedTrainable(r));
  }
  EXPECT_LE(most - least, 64 * 2);
}

TEST(Layout, RoundRobinDealsNeighboursToDifferentRanks) {
  std::vector<model::ParameterSpec> parameters;
  for (const char* name : {"a", "b", "c", "d"}) parameters.push_back({.name = name, .shape = {64}});
  const Layout layout = Make({{.name = "u", .parameters = parameters}}, {.round_robin_gradients = true, .world_size = 2});
  EXPECT_EQ(layout.sections()[0].parameters, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(layout.parameters()[1].first, 128);  // b belongs to rank 1
}

TEST(Layout, Gpt2SmallOnThreeRanks) {
  std::vector<UnitSpec> units{{.name = "embedding",
                               .parameters = {{.name = "wte", .shape = {50257, 768}}, {.name = "wpe", .shape = {1024, 768}}},
                               .backward_reads_parameters = false}};
  for (int i = 0; i < 12; ++i) {
    const std::string h = "h." + std::to_string(i) + ".";
    units.push_back({.name = h,
                     .parameters = {{.name = h + "ln_1.w", .shape = {768}},
                                    {.name = h + "ln_1.b", .shape = {768}},
                                    {.name = h + "qkv.w", .shape = {2304, 768}},
                                    {.name = h + "qkv.b", .shape = {2304}},
                                    {.name = h + "proj.w", .shape = {768, 768}},
                                    {.name = h + "proj.b", .shape = {768}},
                                    {.name = h + "ln_2.w", .shape = {768}},
                                    {.name = h + "ln_2.b", .shape = {768}},
                                    {.name = h + "fc.w", .shape = {3072, 768}},
                                    {.name = h + "fc.b", .shape = {3072}},
                                    {.name = h + "out.w", .shape = {768, 3072}},
                                    {.name = h + "out.b", .shape = {768}}}});
  }
  units.push_back({.name = "head",
                   .parameters = {{.name = "ln_f.w", .shape = {768}},
                                  {.name = "ln_f.b", .shape = {768}},
                                  {.name = "lm_head", .shape = {50257, 768}, .tied_to = "wte"}}});
  const Layout layout = Make(units, {.world_size = 3});
  ExpectSound(layout);
  EXPECT_EQ(layout.model_elements(), 124439808);
  EXPECT_LT(layout.trainable_elements() - layout.model_elements(), 15 * 192);
}

TEST(Layout, CountsBeyondThirtyTwoBits) {
  const Layout layout =
      Make({{.name = "u", .parameters = {{.name = "big", .shape = {60000, 50000}}, {.name = "b", .shape = {7}}}},
            {.name = "v", .parameters = {{.name = "huge", .shape = {1 << 20, 1 << 20}}}}},
           {.world_size = 3});
  ExpectSound(layout);
  EXPECT_EQ(layout.parameters()[1].first, 3000000000);
  EXPECT_EQ(layout.model_elements(), 3000000007 + (int64_t{1} << 40));
}

void ExpectRefused(const std::vector<UnitSpec>& units, std::string_view part) {
  const absl::StatusOr<Layout> layout = Layout::Create(units, {.world_size = 2});
  ASSERT_FALSE(layout.ok()) << part;
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(layout.status().message()).find(part), std::string::npos) << layout.status();
}

TEST(Layout, RefusesWhatMakesNoSenseByName) {
  ExpectRefused({}, "no unit");
  ExpectRefused({{.name = "u", .parameters = {{.name = "a", .shape = {3}}, {.name = "a", .shape = {3}}}}},
                "two parameters are called a");
  ExpectRefused({{.name = "u", .parameters = {{.name = "a", .shape = {3, -1}}}}}, "parameter a [3, -1]");
  ExpectRefused({{.name = "u", .parameters = {{.name = "a", .shape = {1 << 30, 1 << 30}}}}}, "2^56");
  ExpectRefused({{.name = "u", .parameters = {{.name = "a", .shape = {3}, .tied_to = "b"}}}}, "tied to b");
  ExpectRefused({{.name = "u", .parameters = {{.name = "a", .shape = {3}}, {.name = "b", .shape = {4}, .tied_to = "a"}}}},
                "have to be equal");
  ExpectRefused({{.name = "u", .parameters = {}, .uses = 0}}, "uses = 0");
  ExpectRefused({{.name = "u", .parameters = {}, .recomputed = true}}, "unit u is recomputed");
}

}  // namespace
}  // namespace zeroshard::zero
