// Runs a reference run again, sharded as asked, and says how far it comes from the reference: --help lists the flags.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/hugging_face.h"
#include "zeroshard/tools/activation_flags.h"
#include "zeroshard/tools/engine_flags.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/flags/user_path.h"
#include "zeroshard/tools/golden_folder.h"
#include "zeroshard/tools/job_flags.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/interrupt.h"
#include "zeroshard/tools/launch/job.h"
#include "zeroshard/tools/launch/refusal.h"
#include "zeroshard/tools/memory_check.h"
#include "zeroshard/trainer/training_run.h"
#include "zeroshard/zero/world_check.h"

namespace zeroshard::tools {
namespace {

constexpr char kPurpose[] =
    "Usage: golden FOLDER [flags]\n\n"
    "Runs the reference run that FOLDER holds (config.json, init.safetensors, tokens.bin, expected.json, "
    "final.safetensors), and\n"
    "prints one JSON object: how far losses, gradient norms and last weights are from the reference. Ends with 0 whatever "
    "they are.";

// A NaN is worse than anything.
void Worsen(double& worst, double error) { worst = std::isnan(error) || error > worst ? error : worst; }

// The stored parameters, in unit order.
std::vector<model::ParameterSpec> Parameters(const std::vector<model::UnitSpec>& units) {
  std::vector<model::ParameterSpec> parameters;
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      if (parameter.tied_to.empty()) parameters.push_back(parameter);
    }
  }
  return parameters;
}

absl::Status WriteFirstWeights(const GoldenFolder& folder, zero::Engine& engine, const std::vector<model::UnitSpec>& units) {
  for (const model::ParameterSpec& parameter : Parameters(units)) {
    std::vector<float> values(static_cast<size_t>(model::Elements(parameter)));
    ZS_RETURN_IF_ERROR(model::ReadHuggingFace(folder.first(), parameter, values));
    ZS_RETURN_IF_ERROR(engine.WriteParameter(parameter.name, values));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> CompareLastWeights(const GoldenFolder& folder, trainer::TrainingRun& run) {
  double worst = 0;
  for (const model::ParameterSpec& parameter : Parameters(run.units())) {
    std::vector<float> values(static_cast<size_t>(model::Elements(parameter)));
    std::vector<float> expected(values.size());
    ZS_RETURN_IF_ERROR(run.engine().ReadParameter(parameter.name, values));
    ZS_RETURN_IF_ERROR(model::ReadHuggingFace(folder.last(), parameter, expected));
    for (size_t i = 0; i < values.size(); ++i) {
      Worsen(worst, std::fabs(static_cast<double>(values[i]) - static_cast<double>(expected[i])));
    }
  }
  return worst;
}

absl::StatusOr<int> RunRank(comm::Communicator& communicator, const GoldenFolder& folder,
                            const trainer::RunOptions& options) {
  const auto first_weights = [&folder](zero::Engine& engine, const std::vector<model::UnitSpec>& units) {
    return WriteFirstWeights(folder, engine, units);
  };
  ZS_ASSIGN_OR_RETURN(const std::unique_ptr<trainer::TrainingRun> run,
                      trainer::TrainingRun::Create(communicator, options, first_weights));
  double loss_error = 0, norm_error = 0;
  int64_t number = 0;
  for (const GoldenStep& expected : folder.steps()) {
    communicator.device().recorder().SetStep(number++);  // NCCL's ranks agree on each operation of the first two alone.
    ZS_ASSIGN_OR_RETURN(const trainer::StepReport step, run->Step(InterruptRequested()));
    if (step.stop) return InterruptExitCode();
    Worsen(loss_error, std::fabs(step.loss - expected.loss) / std::fabs(expected.loss));
    Worsen(norm_error, std::fabs(step.result.gradient_norm - expected.gradient_norm) / std::fabs(expected.gradient_norm));
  }
  ZS_ASSIGN_OR_RETURN(const double weight_error, CompareLastWeights(folder, *run));
  ZS_ASSIGN_OR_RETURN(const std::string bits, run->Bits());
  if (communicator.rank() != 0) return kExitDone;
  const nlohmann::ordered_json result = {{"max_relative_loss_error", loss_error},
                                         {"max_relative_norm_error", norm_error},
                                         {"max_weight_error", weight_error},
                                         {"bits", bits}};
  std::cout << result.dump() << '\n' << std::flush;
  return kExitDone;
}

int Main(int argc, char** argv) {
  ExitOnInterrupts();
  FlagSet flags("golden", kPurpose);
  JobFlags job;
  EngineFlags engine;
  ActivationFlags activations;
  job.Register(flags);
  engine.Register(flags);
  activations.Register(flags);
  const absl::StatusOr<std::vector<std::string>> rest = flags.Parse(argc - 1, argv + 1);
  if (!rest.ok()) return Refuse(rest.status());
  if (flags.help_requested()) {
    std::cout << flags.Help();
    return kExitDone;
  }
  if (rest->size() != 1)
    return Refuse(absl::InvalidArgumentError("name one FOLDER that holds a golden run; --help says what is in it"));
  const absl::StatusOr<JobPlan> plan = job.Plan(flags, "golden", argc, argv);
  if (!plan.ok()) return Refuse(plan.status());
  const absl::StatusOr<GoldenFolder> folder = GoldenFolder::Open(UserPath(rest->front()));
  if (!folder.ok()) return Refuse(folder.status());
  absl::StatusOr<trainer::RunOptions> options = folder->Options(engine.Options());
  if (!options.ok()) return Refuse(options.status());
  if (const absl::Status fits = zero::CheckWorld(options->engine, plan->world_size); !fits.ok()) return Refuse(fits);
  activations.Apply(options->model);
  if (const absl::Status valid = model::ValidateGptOptions(options->model); !valid.ok()) return Refuse(valid);
  const RunCheck check{*plan, *options};
  if (const absl::Status fits = CheckRooms(*plan, check); !fits.ok()) return Refuse(fits);
  const auto rank_body = [&](comm::Communicator& communicator) { return RunRank(communicator, *folder, *options); };
  return RunJob(*plan, rank_body, [&](device::Device& device, int rank) { return CheckCardRoom(device, rank, check); });
}

}  // namespace
}  // namespace zeroshard::tools

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  return zeroshard::tools::Main(argc, argv);
}
