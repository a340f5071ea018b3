// What an engine of N ranks is to give for a ToyModel, computed by plain loops over whole tensors on one thread: sums over ranks by
// neighbours first, micro-batches in the order of stages 0 and 1 (added up on the rank, then over ranks) or 2 and 3 (over ranks,
// then added up), the optimizer's passes on whole parameters. Two-byte floats are kept as the fp32 that they are, rounded where
// engine and model round.
//
// Example:
//   Reference reference(units, options, /*world_size=*/3);
//   for (int step = 0; step < 4; ++step) results.push_back(reference.Step(EveryUnit(units, options.accumulation)));
//   reference.weights("block.0.weight");
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "zeroshard/device/step_scalars.h"
#include "zeroshard/model/unit.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero::testing {

// [micro-batch][i]: the units that it runs, in order; backward runs them in reverse.
using Schedule = std::vector<std::vector<int>>;
Schedule EveryUnit(const std::vector<model::UnitSpec>& units, int accumulation);

class Reference {
 public:
  Reference(std::vector<model::UnitSpec> units, const EngineOptions& options, int world_size);
  ~Reference();

  // Between steps, of one parameter.
  void SetFrozen(const std::string& name, bool frozen);
  // One step in which all ranks run `schedule`; losses: [rank], of the step's forward passes.
  device::StepScalars Step(const Schedule& schedule);
  const std::vector<double>& losses() const { return losses_; }

  const std::vector<float>& weights(const std::string& name) const;   // the fp32 masters
  const std::vector<float>& gradient(const std::string& name) const;  // of the last step: as it is stored
  const std::vector<float>& moment(int i, const std::string& name) const;

 private:
  struct Tensor {
    model::ParameterSpec spec;
    std::vector<float> weights;
    std::vector<float> gradient;
    std::vector<float> moments[2];
  };
  struct Use {
    int unit;
    int parameter;  // of the unit
  };

  float LossScale() const;  // of this step
  double LossOf(const Tensor& tensor, const Use& use, int rank, int micro_batch) const;
  std::vector<float> GradientOf(const Tensor& tensor, const Use& use, int rank, int micro_batch) const;
  void Reduce(Tensor& tensor, const std::vector<std::vector<Use>>& uses) const;
  device::StepScalars Update();

  std::vector<model::UnitSpec> units_;
  EngineOptions options_;
  int world_size_;
  int step_ = 0;
  std::vector<Tensor> tensors_;
  std::map<std::string, int> by_name_;
  std::vector<double> losses_;
  device::StepScalars scalars_ = {};
};

}  // namespace zeroshard::zero::testing
