#include "zeroshard/trainer/initialize.h"

#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/initialize.h"

namespace zeroshard::trainer {

absl::Status InitializeWeights(zero::Engine& engine, const std::vector<model::UnitSpec>& units, int64_t layers,
                               uint64_t seed, int rank) {
  std::vector<float> values;
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      if (!parameter.tied_to.empty()) continue;
      if (rank == 0) {
        values.resize(static_cast<size_t>(model::Elements(parameter)));
        model::Initialize(parameter, layers, seed, /*first=*/0, values);
      }
      ZS_RETURN_IF_ERROR(engine.WriteParameter(parameter.name, values));
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::trainer
