#include "zeroshard/trainer/parameter_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace zeroshard::trainer {

std::string ParameterList(const std::vector<model::UnitSpec>& units, const optim::OptimizerOptions& optimizer) {
  std::string table = absl::StrFormat("%-44s %-14s %12s   %s\n", "parameter", "shape", "elements", "decay");
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      const std::string shape = absl::StrJoin(parameter.shape, " x ");
      std::string decay = absl::StrCat(optimizer.groups[static_cast<size_t>(parameter.group)].weight_decay);
      if (!parameter.trainable) decay = "not trained";
      if (!parameter.tied_to.empty()) decay = absl::StrCat("is ", parameter.tied_to);
      absl::StrAppendFormat(&table, "%-44s %-14s %12d   %s\n", parameter.name, shape, model::Elements(parameter), decay);
    }
  }
  return table;
}

}  // namespace zeroshard::trainer
