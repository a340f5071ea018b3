// Times forward and backward of one rank's micro-batch on the CPU, by part, against the time of its matrix products alone. Processor
// time of the one computing thread, so that other work on the machine disturbs it little. Prints one JSON object.
//
//   bazel run //model:gpt_benchmark -- --layers=6 --heads=6 --width=384 --context=256 --vocab=50304 --batch=4
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/product_floor.h"
#include "zeroshard/model/single_rank.h"
#include "zeroshard/model/timed_stream.h"

ABSL_FLAG(int64_t, layers, 6, "blocks");
ABSL_FLAG(int64_t, heads, 6, "heads of attention");
ABSL_FLAG(int64_t, width, 384, "of the residual stream");
ABSL_FLAG(int64_t, context, 256, "tokens of a sequence");
ABSL_FLAG(int64_t, vocab, 50304, "tokens of the vocabulary");
ABSL_FLAG(int64_t, batch, 4, "sequences of a micro-batch");
ABSL_FLAG(int64_t, checkpoint_every, 0, "blocks of which only the input is kept; 0: no activation checkpointing");
ABSL_FLAG(bool, checkpoints_on_host, false, "whether those inputs wait in host memory");
ABSL_FLAG(std::string, dtype, "fp32", "fp32, bf16 or fp16: of parameters and activations");
ABSL_FLAG(std::string, gradient_dtype, "fp32", "of gradients: fp32, or as --dtype");
ABSL_FLAG(int, steps, 5, "timed micro-batches, after one that is not");

namespace zeroshard::model {
namespace {

struct Tokens {
  std::vector<int32_t> inputs, targets;
};

Tokens RandomTokens(const GptOptions& options) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(options.vocab) - 1);
  Tokens tokens;
  for (int64_t i = 0; i < options.batch * options.context; ++i) {
    tokens.inputs.push_back(token(random));
    tokens.targets.push_back(token(random));
  }
  return tokens;
}

// One micro-batch, forward and backward, section by section.
absl::Status RunOnce(SingleRank& rank, TimedStream& stream, const MicroBatch& micro_batch) {
  Gpt& gpt = rank.gpt();
  const int last = static_cast<int>(gpt.units().size()) - 1;
  const auto section = [&](int unit) { stream.set_section(unit == 0 ? "embedding" : unit == last ? "head" : "blocks"); };
  ZS_RETURN_IF_ERROR(gpt.BeginMicroBatch(stream, micro_batch));
  for (const auto& [unit, pass] : gpt.passes()) {
    section(unit);
    if (pass == Pass::kForward) ZS_RETURN_IF_ERROR(gpt.Forward(stream, unit, rank.parameters(unit)));
    if (pass == Pass::kRecompute) ZS_RETURN_IF_ERROR(gpt.Recompute(stream, unit, rank.parameters(unit)));
    if (pass == Pass::kBackward) ZS_RETURN_IF_ERROR(gpt.Backward(stream, unit, rank.parameters(unit), rank.targets(unit)));
  }
  return absl::OkStatus();
}

absl::Status Benchmark(const GptOptions& options, int steps) {
  const auto device = device::MakeCpuDevice();
  ZS_ASSIGN_OR_RETURN(const auto rank, SingleRank::Create(*device, options));
  rank->InitializeParameters(/*seed=*/1);
  const Tokens tokens = RandomTokens(options);
  const MicroBatch micro_batch{.inputs = tokens.inputs,
                               .targets = tokens.targets,
                               .rows = options.batch,
                               .gradient_scale = 1.0 / static_cast<double>(tokens.targets.size())};
  TimedStream stream(*device);
  ZS_RETURN_IF_ERROR(RunOnce(*rank, stream, micro_batch));
  stream.clear();
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    const double start = ThreadSeconds();
    ZS_RETURN_IF_ERROR(RunOnce(*rank, stream, micro_batch));
    seconds.push_back(ThreadSeconds() - start);
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::sort(seconds.begin(), seconds.end());
  ZS_ASSIGN_OR_RETURN(const double floor, ProductFloorSeconds(*device, options));
  const double median = seconds[seconds.size() / 2];
  nlohmann::ordered_json result = {{"parameters", ParameterElements(rank->gpt().units())},
                                   {"tokens", tokens.targets.size()},
                                   {"cpu_s_median", median},
                                   {"cpu_s_min", seconds.front()},
                                   {"tokens_per_cpu_s", static_cast<double>(tokens.targets.size()) / median},
                                   {"floor_cpu_s", floor},
                                   {"share_of_floor", floor / median},
                                   {"activation_bytes", rank->gpt().activation_bytes()},
                                   {"peak_rss_bytes", usage.ru_maxrss * 1024},
                                   {"loss_sum", rank->LossSum()}};
  for (const auto& [part, total] : stream.seconds()) result["parts_ms"][part] = total / steps * 1e3;
  std::puts(result.dump(1).c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace zeroshard::model

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const auto dtype_of = [](const std::string& name) {
    return zeroshard::device::ParseDType(name).value_or(zeroshard::device::DType::kUint8);
  };
  const zeroshard::model::GptOptions options{.layers = absl::GetFlag(FLAGS_layers),
                                             .heads = absl::GetFlag(FLAGS_heads),
                                             .width = absl::GetFlag(FLAGS_width),
                                             .context = absl::GetFlag(FLAGS_context),
                                             .vocab = absl::GetFlag(FLAGS_vocab),
                                             .batch = absl::GetFlag(FLAGS_batch),
                                             .dtype = dtype_of(absl::GetFlag(FLAGS_dtype)),
                                             .gradient_dtype = dtype_of(absl::GetFlag(FLAGS_gradient_dtype)),
                                             .checkpoint_every = absl::GetFlag(FLAGS_checkpoint_every),
                                             .checkpoints_on_host = absl::GetFlag(FLAGS_checkpoints_on_host)};
  const absl::Status status = zeroshard::model::Benchmark(options, std::max(1, absl::GetFlag(FLAGS_steps)));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 2;
}
