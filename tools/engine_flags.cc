#include "zeroshard/tools/engine_flags.h"

namespace zeroshard::tools {
namespace {

constexpr char kGroup[] = "ZERO: what is sharded, and how it travels";

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
  flags.Integer("prefetch", &prefetch_, {.least = 0, .most = 1 << 20},
                {.group = kGroup,
                 .text = "Stage 3: units gathered ahead of the one that computes.",
                 .example = "--prefetch=2",
                 .unit = "units"});
  flags.Boolean("keep_parameters", &options_.keep_parameters,
                {.group = kGroup,
                 .text = "Stage 3: keep what forward gathered for backward; more memory, a third less traffic.",
                 .example = "--keep_parameters"});
}

zero::EngineOptions EngineFlags::Options() const {
  zero::EngineOptions options = options_;
  options.stage = static_cast<int>(stage_);
  options.partition = zero::ParsePartition(partition_).value_or(options.partition);
  options.owner = zero::ParseOwnership(owner_).value_or(options.owner);
  options.prefetch = static_cast<int>(prefetch_);
  return options;
}

}  // namespace zeroshard::tools
