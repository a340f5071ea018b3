// How an Engine is asked to hold and move a model's parameters, gradients and optimizer state.
//
// Example: stage 3, gradients in buckets of 16 MiB, clipped to a norm of 1, four micro-batches a step.
//   EngineOptions options{.stage = 3, .reduce_bucket_size = 4 << 20, .accumulation = 4, .clip = 1.0};
//   options.optimizer.schedule.learning_rate = 3e-4;
//   ZS_RETURN_IF_ERROR(Validate(options));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "zeroshard/device/dtype.h"
#include "zeroshard/optim/optimizer_options.h"

namespace zeroshard::zero {

// What a stage shards; each keeps what the one before it does.
constexpr bool ShardsOptimizer(int stage) { return stage >= 1; }
constexpr bool ShardsGradients(int stage) { return stage >= 2; }
constexpr bool ShardsParameters(int stage) { return stage >= 3; }

// How a unit's parameters are split among ranks.
enum class Partition : uint8_t {
  kFlat,    // One flat buffer in N equal parts; a parameter may straddle two ranks.
  kTensor,  // Whole parameters, each with an owner.
};

// Who owns which parameter; for Partition::kTensor. The i-th of n trainable parameters (the frozen ones are dealt out apart):
enum class Ownership : uint8_t {
  kRoundRobin,  // rank i mod N
  kContiguous,  // rank i / ceil(n / N)
  kBalanced,    // the largest first, each to the rank that has the least so far
};

// 4 MiB of fp32: long beside what a message costs, and short enough that little is left to send when backward ends.
inline constexpr int64_t kDefaultReduceBucketSize = 1 << 20;

// Where a tier of the model's state lives between its uses.
enum class OffloadTarget : uint8_t {
  kNone,  // in device memory
  kHost,  // in host memory (pinned on a GPU); on device/cpu a pool of its own, with its own ledger lines
  kFile,  // in a file of `folder`, double-buffered
};

struct OffloadOptions {
  OffloadTarget target = OffloadTarget::kNone;
  std::string folder = {};  // of kFile; each rank makes a private file in it, which is gone when the run ends
};

struct EngineOptions {
  int stage = 2;
  Partition partition = Partition::kFlat;
  Ownership owner = Ownership::kBalanced;
  // Elements of gradients that are reduced together: rounded down to a multiple of 64 N, at least one such multiple.
  int64_t reduce_bucket_size = kDefaultReduceBucketSize;
  // Off: gradients are all-reduced in stages 1 to 3 too, at twice the bytes on the wire.
  bool reduce_scatter = true;
  // As DeepSpeed's option of this name: parameters that follow each other in a unit are dealt out to ranks in turn, so that the
  // gradients of one moment of backward belong to all ranks and not to one. Flat: parameters lie in the buffer as 0, N, 2N, ...,
  // 1, N + 1, ...; tensor: which owner is reduced to first goes round from bucket to bucket. Results are the same bits.
  bool round_robin_gradients = false;
  // Whether communication goes on while the device computes. Off: each collective is waited for where it is issued, stages 0 and 1
  // reduce after the last backward, and nothing is prefetched.
  bool overlap = true;
  // Stage 3: units gathered ahead of the one that computes.
  int prefetch = 1;
  // Stage 3: keep what forward gathered for backward: all parameters in memory, 2Ψ on the wire in place of 3Ψ.
  bool keep_parameters = false;
  // Micro-batches a step. Stages 0 and 1 add them up on the rank and reduce at the last; 2 and 3 reduce each and add up shards.
  int accumulation = 1;
  // Largest global L2 norm of a step's gradient; 0: off.
  double clip = 0;
  // What a step's gradient is of what the ranks' backward passes left: their average over ranks and micro-batches, or their sum
  // times `gradient_scale` (which `average` ignores).
  bool average = true;
  double gradient_scale = 1;
  optim::OptimizerOptions optimizer;

  // Of parameters, gradients and their communication. bf16 and fp16 keep fp32 masters.
  device::DType dtype = device::DType::kFloat32;
  // In which gradients are kept from micro-batch to micro-batch; none: `dtype` with accumulation 1, else fp32.
  std::optional<device::DType> gradient_dtype = {};
  // In which gradients travel (summed in fp32 on arrival); none: as they are kept.
  std::optional<device::DType> communication_dtype = {};
  // DeepSpeed's prescale_gradients: gradients are divided by the number of ranks before they are summed, in place of after; with
  // gradient_predivide_factor != 1 by that factor before and by N / factor after.
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1;

  // Micro-batches on 1, 2, 4 or 8 ranks give the same bits: each is reduced as it is done, into fp32, and added by the ranks' tree.
  bool world_invariant = false;
  // Hybrid: the state is sharded within groups of so many consecutive ranks and replicated across them (rank_groups.h); 0: all
  // ranks. It divides their number. Stage 0 shards nothing, and does not look at it.
  int shard_size = 0;

  // Stage 3. Elements gathered ahead of the unit that computes, in whole units; 0: `prefetch` units.
  int64_t prefetch_bucket_size = 0;
  // Stage 3. A parameter of fewer elements stays gathered from step to step; 0: none does.
  int64_t persistence_threshold = 0;
  // Stage 3. Most elements that are gathered at once, persistent ones not counted; 0: as many as `prefetch` needs.
  int64_t max_live_parameters = 0;
  // Stage 3. What forward gathered is kept for backward where its next use is no more than so many elements away; 0: none.
  int64_t max_reuse_distance = 0;
  // Stages 1 and 2, and persistent parameters of stage 3. Elements of updated parameters gathered together at a step's end, rounded
  // as reduce_bucket_size is; 0: a unit at a time.
  int64_t allgather_bucket_size = 0;
  // The same. Off: each rank's part is broadcast in place of one all-gather.
  bool allgather_partitions = true;

  OffloadOptions offload_parameters;  // stage 3, with the whole optimizer offloaded: the rank's part of all parameters
  OffloadOptions offload_optimizer;   // stages 1 to 3: masters, moments, and the gradients of the rank's part
  // Share of the optimizer's elements that is offloaded (the rest stays in device memory): 0 to 1.
  double offload_ratio = 1;
  // Elements of the optimizer's pass that go through a buffer together under offload: rounded up to whole pages in a file.
  int64_t sub_group_size = 1'000'000'000;
};

// Units gathered ahead: none without overlap.
constexpr int EffectivePrefetch(const EngineOptions& options) { return options.overlap ? options.prefetch : 0; }

// Ranks among whom state is split.
constexpr int ShardSize(const EngineOptions& options, int world_size) {
  return ShardsOptimizer(options.stage) && options.shard_size > 0 ? options.shard_size : world_size;
}

// Whether anything lives outside device memory.
constexpr bool Offloads(const EngineOptions& options) {
  return options.offload_parameters.target != OffloadTarget::kNone ||
         options.offload_optimizer.target != OffloadTarget::kNone;
}

// Errors: kInvalidArgument, naming the option, its value and what is allowed; also for a folder that state cannot be offloaded to.
absl::Status Validate(const EngineOptions& options);

// As flags write them: "flat", "tensor"; "round_robin", "contiguous", "balanced"; "none", "cpu", "nvme".
std::string_view Name(Partition partition);
std::string_view Name(Ownership owner);
std::string_view Name(OffloadTarget target);
std::optional<Partition> ParsePartition(std::string_view name);
std::optional<Ownership> ParseOwnership(std::string_view name);
std::optional<OffloadTarget> ParseOffloadTarget(std::string_view name);

}  // namespace zeroshard::zero
