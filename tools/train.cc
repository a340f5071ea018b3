// Trains a GPT-2 with ZeRO: --help lists the flags.
#include "zeroshard/trainer/train.h"

#include <iostream>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/gpt_options.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/interrupt.h"
#include "zeroshard/tools/launch/job.h"
#include "zeroshard/tools/launch/refusal.h"
#include "zeroshard/tools/memory_check.h"
#include "zeroshard/tools/train_flags.h"
#include "zeroshard/trainer/flight_record.h"
#include "zeroshard/trainer/parameter_list.h"
#include "zeroshard/trainer/product_choices.h"
#include "zeroshard/trainer/step_floor.h"

namespace zeroshard::tools {
namespace {

void Print(std::string_view text) { std::cout << text << std::flush; }
void Note(std::string_view line) { std::cerr << line << '\n' << std::flush; }

// The communicator fails with the cause alone; people are told where to read on.
absl::Status NameFlightRecord(comm::Communicator& communicator, const absl::Status& cause) {
  communicator.Abort(cause);
  const auto record = cause.GetPayload(trainer::kFlightRecordPayload);
  if (!record) return cause;
  return absl::Status(cause.code(), absl::StrCat(cause.message(), trainer::kLastOperations, std::string(*record)));
}

absl::StatusOr<int> TrainRank(comm::Communicator& communicator, const trainer::TrainOptions& options) {
  const auto trained = trainer::Train(communicator, options);
  if (!trained.ok()) return NameFlightRecord(communicator, trained.status());
  const trainer::TrainOutcome& outcome = *trained;
  if (outcome.stopped) {
    if (communicator.rank() == 0) Note(absl::StrCat("interrupted after ", outcome.steps, " of ", options.steps, " steps"));
    return InterruptExitCode();
  }
  if (outcome.files.ok() && !std::cout.good()) {
    Note("error: cannot write the results to the standard output; the run itself went to its end");
    return kExitFile;
  }
  if (outcome.files.ok()) return kExitDone;
  Note(absl::StrCat("error: ", outcome.files.message(), "; the run itself went to its end"));
  return kExitFile;
}

absl::StatusOr<int> FloorOfRank(comm::Communicator& communicator, const trainer::TrainOptions& options) {
  ZS_ASSIGN_OR_RETURN(const trainer::StepFloor floor, trainer::MeasureStepFloor(communicator, options.run, options.steps));
  if (communicator.rank() != 0) return kExitDone;
  Print(absl::StrCat(trainer::FormatStepFloor(floor, communicator), "\n"));
  const absl::Status kept = trainer::KeepProductChoices(communicator.device(), options.product_choices_path, Note);
  if (!kept.ok()) Note(absl::StrCat("error: ", kept.message()));
  return kept.ok() && std::cout.good() ? kExitDone : kExitFile;
}

int ListParameters(const trainer::TrainOptions& options) {
  const auto units = model::GptUnits(options.run.model);
  if (!units.ok()) return Refuse(units.status());
  Print(trainer::ParameterList(*units, options.run.engine.optimizer));
  return kExitDone;
}

int Main(int argc, char** argv) {
  ExitOnInterrupts();
  TrainFlags flags;
  const absl::Status parsed = flags.Parse(argc, argv);
  if (!parsed.ok()) return Refuse(parsed);
  if (flags.set().help_requested()) {
    Print(flags.set().Help());
    return kExitDone;
  }
  const absl::StatusOr<JobPlan> plan = flags.Plan(argc, argv);
  if (!plan.ok()) return Refuse(plan.status());
  absl::StatusOr<trainer::TrainOptions> options = flags.Options(*plan, Note);
  if (!options.ok()) return Refuse(options.status());
  if (const absl::Status announced = flags.Announce(*plan, Note); !announced.ok()) return Refuse(announced);
  if (flags.list_parameters()) return ListParameters(*options);
  options->stop = &InterruptRequested();
  options->print = Print;
  options->note = Note;
  const RunCheck check{*plan, options->run,
                       trainer::EvaluationSizeOf(options->eval_data, options->run.model.context, options->eval_batches),
                       flags.step_floor() ? trainer::RoomWork::kStepFloor : trainer::RoomWork::kTraining};
  if (const absl::Status fits = CheckRooms(*plan, check); !fits.ok()) return Refuse(fits);
  const auto rank_body = [&](comm::Communicator& communicator) {
    return flags.step_floor() ? FloorOfRank(communicator, *options) : TrainRank(communicator, *options);
  };
  return RunJob(*plan, rank_body, [&](device::Device& device, int rank) { return CheckCardRoom(device, rank, check); });
}

}  // namespace
}  // namespace zeroshard::tools

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  return zeroshard::tools::Main(argc, argv);
}
