#include "zeroshard/zero/testing/toy_units.h"

#include <string>

namespace zeroshard::zero::testing {

std::vector<model::UnitSpec> OddUnits() {
  std::vector<model::UnitSpec> units;
  units.push_back({.name = "embedding",
                   .parameters = {{.name = "wte", .shape = {31, 13}}, {.name = "wpe", .shape = {7, 13}, .group = 1}},
                   .backward_reads_parameters = false});
  for (int i = 0; i < 3; ++i) {
    const std::string block = "block." + std::to_string(i);
    units.push_back({.name = block,
                     .parameters = {{.name = block + ".weight", .shape = {39, 17}},
                                    {.name = block + ".frozen", .shape = {70}, .trainable = false},
                                    {.name = block + ".bias", .shape = {39}, .group = 1},
                                    {.name = block + ".empty", .shape = {0, 4}},
                                    {.name = block + ".scale", .shape = {3}, .group = 1, .trainable = i != 1}}});
  }
  units.push_back({.name = "still", .parameters = {{.name = "still.weight", .shape = {5, 5}, .trainable = false}}});
  units.push_back({.name = "head",
                   .parameters = {{.name = "norm", .shape = {13}, .group = 1},
                                  {.name = "lm_head", .shape = {31, 13}, .tied_to = "wte"}}});
  return units;
}

std::vector<model::UnitSpec> EqualUnits(int units, int64_t elements) {
  std::vector<model::UnitSpec> result;
  for (int i = 0; i < units; ++i) {
    const std::string name = "unit." + std::to_string(i);
    result.push_back({.name = name, .parameters = {{.name = name + ".weight", .shape = {elements}}}});
  }
  return result;
}

}  // namespace zeroshard::zero::testing
