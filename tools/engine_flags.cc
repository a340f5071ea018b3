#include "zeroshard/tools/engine_flags.h"

#include "zeroshard/tools/flags/user_path.h"

namespace zeroshard::tools {
namespace {

constexpr char kGroup[] = "ZERO: what is sharded, and how it travels";
constexpr char kStage3[] = "STAGE 3: how parameters are gathered";
constexpr char kOffload[] = "OFFLOAD: what waits outside the device's memory";

zero::OffloadOptions Offload(const std::string& target, const std::string& folder) {
  const zero::OffloadTarget kind = target == "cpu"    ? zero::OffloadTarget::kHost
                                   : target == "nvme" ? zero::OffloadTarget::kFile
                                                      : zero::OffloadTarget::kNone;
  return {.target = kind, .folder = UserPath(folder)};
}

}  // namespace

void EngineFlags::Register(FlagSet& flags) {
  flags.Integer("stage", &stage_, {.least = 0, .most = 3},
                {.group = kGroup,
                 .text = "What is sharded over ranks: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too.",
                 .example = "--stage=3"});
  flags.Choice("partition", &partition_, {"flat", "tensor"},
               {.group = kGroup,
                .text = "How it is cut: flat (equal parts of flat buffers) or tensor (whole tensors have an owner).",
                .example = "--partition=tensor"});
  flags.Choice(
      "owner", &owner_, {"round_robin", "contiguous", "balanced"},
      {.group = kGroup, .text = "Which rank owns a tensor, with --partition=tensor.", .example = "--owner=contiguous"});
  flags.Integer("shard_size", &shard_size_, {.least = 0, .most = 1 << 20},
                {.group = kGroup,
                 .text = "Hybrid: shard within so many consecutive ranks, replicate across; divides the ranks; 0: all.",
                 .example = "--shard_size=4",
                 .unit = "ranks"});
  flags.Boolean("world_invariant", &options_.world_invariant,
                {.group = kGroup,
                 .text = "The same micro-batches on 1, 2, 4 or 8 ranks give the same bits.",
                 .example = "--world_invariant"});
  RegisterTraffic(flags);
  RegisterStage3(flags);
  RegisterOffload(flags);
}

void EngineFlags::RegisterTraffic(FlagSet& flags) {
  flags.Integer("reduce_bucket_size", &options_.reduce_bucket_size, {.least = 1},
                {.group = kGroup,
                 .text = "Gradients that are reduced together.",
                 .example = "--reduce_bucket_size=1e6",
                 .unit = "elements"});
  flags.Boolean("reduce_scatter", &options_.reduce_scatter,
                {.group = kGroup,
                 .text = "Stages 1 to 3: reduce each gradient to its owner only; off: all-reduce.",
                 .example = "--noreduce_scatter"});
  flags.Boolean("round_robin_gradients", &options_.round_robin_gradients,
                {.group = kGroup,
                 .text = "Deal the parameters of a unit out to ranks in turn.",
                 .example = "--round_robin_gradients"});
  flags.Boolean("overlap", &options_.overlap,
                {.group = kGroup, .text = "Communicate while computing.", .example = "--nooverlap"});
  flags.Boolean("prescale_gradients", &options_.prescale_gradients,
                {.group = kGroup,
                 .text = "Divide gradients by the number of ranks before they are summed, not after.",
                 .example = "--prescale_gradients"});
  flags.Real("gradient_predivide_factor", &options_.gradient_predivide_factor, {.least = 0, .without_least = true},
             {.group = kGroup,
              .text = "Divide gradients by this before the sum, by ranks / this after.",
              .example = "--gradient_predivide_factor=4"});
  flags.Integer("allgather_bucket_size", &options_.allgather_bucket_size, {.least = 0},
                {.group = kGroup,
                 .text = "Stages 1 and 2: updated parameters that are gathered together; 0: a unit at a time.",
                 .example = "--allgather_bucket_size=1e6",
                 .unit = "elements"});
  flags.Boolean("allgather_partitions", &options_.allgather_partitions,
                {.group = kGroup,
                 .text = "Stages 1 and 2: one all-gather of updated parameters; off: a broadcast from each rank.",
                 .example = "--noallgather_partitions"});
}

void EngineFlags::RegisterStage3(FlagSet& flags) {
  flags.Integer("prefetch", &prefetch_, {.least = 0, .most = 1 << 20},
                {.group = kStage3,
                 .text = "Units gathered ahead of the one that computes.",
                 .example = "--prefetch=2",
                 .unit = "units"});
  flags.Integer("prefetch_bucket_size", &options_.prefetch_bucket_size, {.least = 0},
                {.group = kStage3,
                 .text = "Parameters gathered ahead, in whole units; 0: --prefetch units.",
                 .example = "--prefetch_bucket_size=5e7",
                 .unit = "elements"});
  flags.Integer("persistence_threshold", &options_.persistence_threshold, {.least = 0},
                {.group = kStage3,
                 .text = "A parameter of fewer elements stays gathered from step to step; 0: none does.",
                 .example = "--persistence_threshold=1e5",
                 .unit = "elements"});
  flags.Integer("max_live_parameters", &options_.max_live_parameters, {.least = 0},
                {.group = kStage3,
                 .text = "Most parameters that are gathered at once; 0: what --prefetch needs.",
                 .example = "--max_live_parameters=1e9",
                 .unit = "elements"});
  flags.Integer("max_reuse_distance", &options_.max_reuse_distance, {.least = 0},
                {.group = kStage3,
                 .text = "What forward gathered is kept for backward where its next use is no further away; 0: none is.",
                 .example = "--max_reuse_distance=1e9",
                 .unit = "elements"});
  flags.Boolean("keep_parameters", &options_.keep_parameters,
                {.group = kStage3,
                 .text = "Keep all that forward gathered for backward; more memory, a third less traffic.",
                 .example = "--keep_parameters"});
}

void EngineFlags::RegisterOffload(FlagSet& flags) {
  flags.Choice("offload_parameters", &offload_parameters_, {"none", "cpu", "nvme"},
               {.group = kOffload,
                .text = "Stage 3: where a rank's parameters wait: host memory, or a file of --offload_parameters_folder.",
                .example = "--offload_parameters=cpu"});
  flags.Text("offload_parameters_folder", &parameters_folder_,
             {.group = kOffload,
              .text = "For --offload_parameters=nvme; each rank's file in it is gone when the run ends.",
              .example = "--offload_parameters_folder=/local_nvme"});
  flags.Choice("offload_optimizer", &offload_optimizer_, {"none", "cpu", "nvme"},
               {.group = kOffload,
                .text = "Stages 1 to 3: where masters, moments and the rank's gradients wait.",
                .example = "--offload_optimizer=cpu"});
  flags.Text("offload_optimizer_folder", &optimizer_folder_,
             {.group = kOffload,
              .text = "For --offload_optimizer=nvme; each rank's file in it is gone when the run ends.",
              .example = "--offload_optimizer_folder=/local_nvme"});
  flags.Real(
      "offload_ratio", &options_.offload_ratio, {.least = 0, .most = 1},
      {.group = kOffload, .text = "Share of the optimizer's elements that is offloaded.", .example = "--offload_ratio=0.5"});
  flags.Integer("sub_group_size", &options_.sub_group_size, {.least = 1},
                {.group = kOffload,
                 .text = "Elements that the optimizer works on at a time, under offload.",
                 .example = "--sub_group_size=1e8",
                 .unit = "elements"});
}

zero::EngineOptions EngineFlags::Options() const {
  zero::EngineOptions options = options_;
  options.stage = static_cast<int>(stage_);
  options.partition = zero::ParsePartition(partition_).value_or(options.partition);
  options.owner = zero::ParseOwnership(owner_).value_or(options.owner);
  options.prefetch = static_cast<int>(prefetch_);
  options.shard_size = static_cast<int>(shard_size_);
  options.offload_parameters = Offload(offload_parameters_, parameters_folder_);
  options.offload_optimizer = Offload(offload_optimizer_, optimizer_folder_);
  return options;
}

}  // namespace zeroshard::tools
