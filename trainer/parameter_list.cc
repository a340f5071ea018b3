#include "zeroshard/trainer/parameter_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace zeroshard::trainer {

std::string ParameterList(const std::vector<model::UnitSpec>& units, const optim::OptimizerOptions& optimizer) {
  std::string table =
      absl::StrFormat("%-44s %-14s %12s   %5s  %-10s %s\n", "parameter", "shape", "elements", "group", "lr scale", "decay");
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      const std::string shape = absl::StrJoin(parameter.shape, " x ");
      const optim::GroupOptions& group = optimizer.groups[static_cast<size_t>(parameter.group)];
      absl::StrAppendFormat(&table, "%-44s %-14s %12d   ", parameter.name, shape, model::Elements(parameter));
      if (!parameter.tied_to.empty()) {
        absl::StrAppend(&table, "is ", parameter.tied_to, "\n");
      } else if (!parameter.trainable) {
        absl::StrAppend(&table, "not trained\n");
      } else {
        absl::StrAppendFormat(&table, "%5d  %-10g %g%s\n", parameter.group, group.learning_rate_scale, group.weight_decay,
                              group.orthogonal ? "  muon" : "");
      }
    }
  }
  return table;
}

}  // namespace zeroshard::trainer
