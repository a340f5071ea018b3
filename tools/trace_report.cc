// Reads a trace that tools:train --trace=FILE wrote: how much of each rank's communication was hidden behind its computing, and how
// much the critical path of the recorded dependencies allows (trainer/overlap.h says what that is).
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/flags/user_path.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/trainer/overlap.h"

namespace zeroshard::tools {
namespace {

using trainer::RankOverlap;

int Refuse(const absl::Status& status) {
  std::cerr << "error: " << status.message() << '\n';
  return ExitCodeOf(status, Phase::kStarting);
}

std::string Table(const std::vector<RankOverlap>& ranks) {
  std::string text = absl::StrFormat("%5s %10s %10s %10s %10s %9s %9s %18s\n", "rank", "wall s", "waiting s", "comm. s",
                                     "exposed s", "hidden", "allowed", "hidden / allowed");
  for (const RankOverlap& r : ranks) {
    absl::StrAppendFormat(&text, "%5d %10.4f %10.4f %10.4f %10.4f %8.1f%% %8.1f%% %18.3f\n", r.rank, r.wall_s, r.waiting_s,
                          r.communication_s, r.exposed_s, 100 * r.hidden_share(), 100 * r.allowed_share(),
                          r.hidden_of_allowed());
  }
  return text;
}

std::string JsonOf(const std::vector<RankOverlap>& ranks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  double worst = 1;
  for (const RankOverlap& r : ranks) {
    worst = std::min(worst, r.hidden_of_allowed());
    list.push_back({{"rank", r.rank},
                    {"wall_s", r.wall_s},
                    {"waiting_s", r.waiting_s},
                    {"communication_s", r.communication_s},
                    {"exposed_s", r.exposed_s},
                    {"least_exposed_s", r.least_exposed_s},
                    {"hidden_share", r.hidden_share()},
                    {"allowed_share", r.allowed_share()},
                    {"hidden_of_allowed", r.hidden_of_allowed()}});
  }
  return nlohmann::ordered_json{{"hidden_of_allowed", worst}, {"ranks", list}}.dump() + "\n";
}

int Main(int argc, char** argv) {
  bool json = false;
  FlagSet flags("trace_report", "Says how much of the communication in a trace was hidden: trace_report [FLAGS] TRACE.json");
  flags.Boolean("json", &json, {.group = "OUTPUT", .text = "One JSON object in place of a table.", .example = "--json"});
  const absl::StatusOr<std::vector<std::string>> files = flags.Parse(argc - 1, argv + 1);
  if (!files.ok()) return Refuse(files.status());
  if (flags.help_requested()) {
    std::cout << flags.Help();
    return kExitDone;
  }
  if (files->size() != 1) return Refuse(absl::InvalidArgumentError("name one trace: trace_report TRACE.json"));
  const auto spans = trainer::ReadTrace(UserPath(files->front()));
  if (!spans.ok()) return Refuse(spans.status());
  const std::vector<RankOverlap> ranks = trainer::AnalyzeOverlap(*spans);
  std::cout << (json ? JsonOf(ranks) : Table(ranks)) << std::flush;
  return kExitDone;
}

}  // namespace
}  // namespace zeroshard::tools

int main(int argc, char** argv) { return zeroshard::tools::Main(argc, argv); }
