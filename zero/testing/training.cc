#include "zeroshard/zero/testing/training.h"

#include <string_view>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"
#include "zeroshard/model/unit_pass.h"

namespace zeroshard::zero::testing {

using device::Array;
using device::DType;

absl::Status WriteInitial(Engine& engine, const std::vector<model::UnitSpec>& units) {
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& spec : unit.parameters) {
      if (!spec.tied_to.empty()) continue;
      std::vector<float> values(model::Elements(spec));
      for (size_t e = 0; e < values.size(); ++e) values[e] = Initial(spec, static_cast<int64_t>(e));
      ZS_RETURN_IF_ERROR(engine.WriteParameter(spec.name, values));
    }
  }
  return absl::OkStatus();
}

// The test's own memory: not counted where a step's allocations are.
std::vector<model::UnitPass> PassesOf(const ToyModel& model, const std::vector<int>& units) {
  const device::VendorScope uncounted;
  std::vector<bool> recomputed;
  for (int u : units) recomputed.push_back(model.units()[u].recomputed);
  return model::TrainingPasses(recomputed);
}

absl::Status RunMicroBatch(Engine& engine, const ToyModel& model, const std::vector<int>& units, const Sample& sample,
                           Array loss) {
  for (const auto& [index, pass] : PassesOf(model, units)) {
    const int u = units[index];
    ZS_RETURN_IF_ERROR(engine.Unshard(u, pass));
    ZS_ASSIGN_OR_RETURN(const auto parameters, engine.parameters(u));
    if (pass == Pass::kForward) {
      model.Forward(engine.compute(), u, parameters, sample, loss);
    } else if (pass == Pass::kRecompute) {
      model.Recompute(engine.compute(), parameters);
    } else {
      ZS_ASSIGN_OR_RETURN(const auto gradients, engine.gradients(u));
      model.Backward(engine.compute(), u, parameters, gradients, sample, engine.loss_scale());
      ZS_RETURN_IF_ERROR(engine.GradientsReady(u));
    }
    ZS_RETURN_IF_ERROR(engine.Reshard(u));
  }
  return absl::OkStatus();
}

absl::Status ReadAll(Engine& engine, const std::vector<model::UnitSpec>& units, TrainingRun& run) {
  const optim::OptimizerOptions& optimizer = engine.options().optimizer;
  std::vector<std::string_view> moments;
  if (optimizer.kind != optim::Kind::kSgd) {
    moments = {"exp_avg", "exp_avg_sq"};
  } else if (optimizer.momentum != 0) {
    moments = {"momentum_buffer"};
  }
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& spec : unit.parameters) {
      std::vector<float> values(model::Elements(spec));
      ZS_RETURN_IF_ERROR(engine.ReadParameter(spec.name, values));
      run.weights[spec.name] = values;
      if (!spec.trainable) continue;
      ZS_ASSIGN_OR_RETURN(const bool frozen, engine.IsFrozen(spec.name));
      if (!frozen) {
        ZS_RETURN_IF_ERROR(engine.ReadGradient(spec.name, values));
        run.gradients[spec.name] = values;
      }
      for (size_t i = 0; i < moments.size(); ++i) {
        ZS_RETURN_IF_ERROR(engine.ReadMoment(moments[i], spec.name, values));
        run.moments[i][spec.name] = values;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainingRun> Train(comm::Communicator& communicator, const std::vector<model::UnitSpec>& units,
                                  const EngineOptions& options, const TrainingOptions& training) {
  ZS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(communicator, units, options));
  ZS_RETURN_IF_ERROR(WriteInitial(*engine, units));
  device::Device& device = communicator.device();
  ZS_ASSIGN_OR_RETURN(const device::Buffer losses, device.Allocate(8 * training.steps, device::Use::kActivations, "losses"));
  const ToyModel model(units, training.padding);
  TrainingRun run;
  for (int step = 0; step < training.steps; ++step) {
    if (training.freeze) {
      for (const auto& [name, frozen] : training.freeze(step)) ZS_RETURN_IF_ERROR(engine->SetFrozen(name, frozen));
    }
    if (training.before_step) ZS_RETURN_IF_ERROR(training.before_step(*engine, step));
    const Schedule schedule = training.schedule ? training.schedule(step) : EveryUnit(units, options.accumulation);
    const int64_t before = communicator.wire().sent_bytes(comm::Traffic::kData);
    for (size_t m = 0; m < schedule.size(); ++m) {
      ZS_RETURN_IF_ERROR(RunMicroBatch(*engine, model, schedule[m], {communicator.rank(), step, static_cast<int>(m)},
                                       losses.array(DType::kFloat64).Slice(step, 1)));
    }
    ZS_RETURN_IF_ERROR(engine->Step());
    ZS_ASSIGN_OR_RETURN(const StepResult result, engine->Result());
    run.results.push_back(result);
    ZS_RETURN_IF_ERROR(engine->Barrier("end of a step"));
    run.data_bytes.push_back(communicator.wire().sent_bytes(comm::Traffic::kData) - before);
  }
  ZS_RETURN_IF_ERROR(ReadAll(*engine, units, run));
  run.losses.resize(training.steps);
  device.CopyToHost(engine->compute(), losses.array(DType::kFloat64), run.losses.data());
  engine->compute().Synchronize();
  return run;
}

}  // namespace zeroshard::zero::testing
