// How much of the communication between two hosts is hidden behind computing, in every stage, on links of a given rate. As root:
//
//   bazel run //integration_tests/hosts:overlap_benchmark -- --rate=1gbit --backends=gloo,ucx
//
// Two network namespaces are made, an untied model is trained between them, and a trace of its steps is read (trainer/overlap.h
// says what hidden and allowed are). First the rows of a micro-batch are chosen so that communication takes the given share of
// computing. Prints one JSON object for each backend, stage and rank: hidden_of_allowed is the number.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/integration_tests/hosts/network.h"
#include "zeroshard/integration_tests/train/tool_process.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/trainer/overlap.h"

namespace zeroshard::integration_tests {
namespace {

using trainer::RankOverlap;

constexpr int64_t kFirstTraced = 2;  // the steps before it touch memory for the first time
constexpr int64_t kMostRows = 512;

struct Options {
  std::string rate = "1gbit";
  std::string backends = "gloo,ucx";
  std::string stages = "0,1,2,3";
  std::string train = "tools/train";
  double share = 0.5;
  int64_t steps = 6;
  int64_t layers = 6, width = 384, vocab = 4096, context = 128;
  std::vector<std::string> more;
};

struct Case {
  std::string backend;
  int stage = 0;
  int64_t rows = 0;
};

double Computing(const RankOverlap& rank) { return rank.wall_s - rank.waiting_s; }

// UCX sees that the hosts are one machine, and would take its memory.
std::vector<std::string> Environment(const std::string& backend) {
  if (backend != "ucx") return {};
  return {"UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"};
}

absl::StatusOr<std::vector<RankOverlap>> Train(const Options& options, const Network& network, const Case& of) {
  static const std::string text = WriteFile("text.txt", SomeText(2'000'000));
  const std::string trace = absl::StrCat(::testing::TempDir(), "/overlap.", of.backend, ".", of.stage, ".json");
  std::vector<std::string> flags = {"--data=" + text,
                                    "--hosts=node1,node2",
                                    "--nproc=1",
                                    "--ssh=" + network.Ssh(),
                                    "--threads=1",
                                    "--notied",
                                    "--sample=0",
                                    "--flight_recorder=none",
                                    absl::StrCat("--backend=", of.backend),
                                    absl::StrCat("--stage=", of.stage),
                                    absl::StrCat("--batch=", of.rows),
                                    absl::StrCat("--layers=", options.layers),
                                    absl::StrCat("--heads=", options.width / 64),
                                    absl::StrCat("--width=", options.width),
                                    absl::StrCat("--vocab=", options.vocab),
                                    absl::StrCat("--context=", options.context),
                                    absl::StrCat("--steps=", kFirstTraced + options.steps),
                                    absl::StrCat("--trace_steps=", kFirstTraced, ":", kFirstTraced + options.steps - 1),
                                    "--trace=" + trace};
  flags.insert(flags.end(), options.more.begin(), options.more.end());
  const ToolResult result = ToolProcess(options.train, flags, Environment(of.backend)).Wait(std::chrono::minutes(30));
  if (result.code != 0) return absl::InternalError(LastLine(result.errors));
  ZS_ASSIGN_OR_RETURN(const std::vector<trainer::TraceSpan> spans, trainer::ReadTrace(trace));
  return trainer::AnalyzeOverlap(spans);
}

// Computing grows with the rows, communication does not.
absl::StatusOr<int64_t> ChooseRows(const Options& options, const Network& network, Case of) {
  of.rows = 4;
  for (int i = 0; i < 2; ++i) {
    ZS_ASSIGN_OR_RETURN(const std::vector<RankOverlap> ranks, Train(options, network, of));
    double most = 0;
    for (const RankOverlap& rank : ranks) most = std::max(most, rank.communication_s / Computing(rank));
    const double rows = std::round(static_cast<double>(of.rows) * most / options.share);
    of.rows = std::clamp<int64_t>(static_cast<int64_t>(rows), 1, kMostRows);
  }
  return of.rows;
}

absl::Status Measure(const Options& options, const Network& network, Case of) {
  ZS_ASSIGN_OR_RETURN(of.rows, ChooseRows(options, network, of));
  ZS_ASSIGN_OR_RETURN(const std::vector<RankOverlap> ranks, Train(options, network, of));
  for (const RankOverlap& rank : ranks) {
    std::cout << nlohmann::ordered_json{{"backend", of.backend},
                                        {"stage", of.stage},
                                        {"rate", options.rate},
                                        {"rows", of.rows},
                                        {"rank", rank.rank},
                                        {"steps", options.steps},
                                        {"communication_of_computing", rank.communication_s / Computing(rank)},
                                        {"wall_s", rank.wall_s},
                                        {"communication_s", rank.communication_s},
                                        {"exposed_s", rank.exposed_s},
                                        {"least_exposed_s", rank.least_exposed_s},
                                        {"hidden_share", rank.hidden_share()},
                                        {"allowed_share", rank.allowed_share()},
                                        {"hidden_of_allowed", rank.hidden_of_allowed()}}
                     .dump()
              << std::endl;
  }
  return absl::OkStatus();
}

absl::Status MeasureAll(const Options& options) {
  const Network network(2);
  if (!network.why_not().empty()) return absl::FailedPreconditionError(network.why_not());
  if (!network.Shape(options.rate)) {
    return absl::FailedPreconditionError(absl::StrCat("this kernel does not shape links to --rate=", options.rate));
  }
  for (const auto backend : absl::StrSplit(options.backends, ',')) {
    for (const auto stage : absl::StrSplit(options.stages, ',')) {
      Case of{.backend = std::string(backend)};
      if (!absl::SimpleAtoi(stage, &of.stage) || of.stage < 0 || of.stage > 3) {
        return absl::InvalidArgumentError(absl::StrCat("--stages=", options.stages, ": write numbers from 0 to 3"));
      }
      ZS_RETURN_IF_ERROR(Measure(options, network, of));
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  tools::FlagSet flags("overlap_benchmark",
                       "Measures how much communication between two hosts is hidden: [FLAGS] [-- FLAGS of train]");
  const auto help = [](const char* text, const char* example) {
    return tools::FlagHelp{.group = "MEASUREMENT", .text = text, .example = example};
  };
  flags.Text("rate", &options.rate, help("Of each link, as tc writes it.", "--rate=1gbit"));
  flags.Text("backends", &options.backends, help("Backends, one after another.", "--backends=gloo,ucx"));
  flags.Text("stages", &options.stages, help("Stages, one after another.", "--stages=0,1,2,3"));
  flags.Text("train", &options.train, help("The program tools:train.", "--train=bazel-bin/tools/train"));
  flags.Real("share", &options.share, {.least = 0, .without_least = true},
             help("What communication is to take of computing, in time.", "--share=0.5"));
  flags.Integer("steps", &options.steps, {.least = 1}, help("Steps that are traced.", "--steps=6"));
  flags.Integer("layers", &options.layers, {.least = 1}, help("Of the model.", "--layers=6"));
  flags.Integer("width", &options.width, {.least = 64}, help("Of the model: a multiple of 64.", "--width=384"));
  flags.Integer("vocab", &options.vocab, {.least = 256}, help("Of the model.", "--vocab=4096"));
  flags.Integer("context", &options.context, {.least = 1}, help("Tokens of a row.", "--context=128"));
  const absl::StatusOr<std::vector<std::string>> rest = flags.Parse(argc - 1, argv + 1);
  absl::Status status = rest.status();
  if (status.ok() && flags.help_requested()) {
    std::cout << flags.Help();
    return EXIT_SUCCESS;
  }
  if (status.ok()) {
    options.more = *rest;
    status = MeasureAll(options);
  }
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "error: " << status.message() << '\n';
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace zeroshard::integration_tests

int main(int argc, char** argv) { return zeroshard::integration_tests::Main(argc, argv); }
