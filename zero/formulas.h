// What a rank holds and sends, by formula: DESIGN's table of stages and its wire bytes, from a layout and options alone. Nothing
// here looks at an engine, and an engine looks at nothing here but to predict: tests hold the one against the other, to the byte.
//
// With Ψ the padded trainable elements, Ψr a rank's part of them (Ψ/N, flat):
//
//   stage   parameters    gradients    masters, moments   sent by a rank for a step's data, in elements, f = (N - 1) / N
//     0     p Ψ           g Ψ          (w + m) Ψ          2Ψf
//     1     p Ψ           g Ψ          (w + m) Ψr         2Ψf
//     2     p Ψ           g Ψr         (w + m) Ψr         (A + 1) Ψf
//     3     p Ψr          g Ψr         (w + m) Ψr         A f Σ_u Ψ_u (gathers_u + 1)
//
// p, g: bytes of Precision::parameters and gradients; w: 4 where parameters have two bytes, else 0; m: 8 for Adam, 4 for SGD with
// momentum, else 0. So bf16 and fp16 with Adam hold 16Ψ, 4Ψ + 12Ψr, 2Ψ + 14Ψr, 16Ψr; with fp32 gradients 18Ψ, 6Ψ + 12Ψr,
// 2Ψ + 16Ψr, 18Ψr. Sent are elements of Precision::wire (reductions) and parameters (gathers). Frozen parameters count as
// parameters alone. Partition::kTensor sends Ψ - Ψr for a reduction and (N - 1) Ψr for a broadcast. reduce_scatter off: 2Ψf for a
// reduction. Persistent parameters of stage 3 (P) are whole on each rank and gathered once a step: P - Pr more held, Pf sent, and no
// part of Ψ_u. With world_invariant and A > 1 gradients are log2(A) fp32 buffers of what the optimizer works on (in stages 0 and 1
// beside g Ψ), and stages 0 and 1 reduce A times.
//
// Hybrid (shard_size S of N ranks, R = N / S replicas): memory is as with N = S, so Ψr is Ψ/S. What is gathered has f = (S - 1) / S. A
// reduction sends Ψ (S - 1) / S (tensor: Ψ - Ψr) within the group, in bytes of the wire, and Ψr (R - 1) / R across in fp32 and as much
// again in bytes of the wire; two-byte gradients are staged in fp32 in between, two buckets of the rank's part or 2 Ψr. With
// reduce_scatter off, and with S = 1, reductions go over all ranks: 2Ψ (N - 1) / N. Stage 0 has no groups.
//
// Offload: of the optimizer's elements E (Ψr; a share of them with offload_ratio) device memory holds neither masters nor moments,
// nor, in stages 2 and 3, reduced gradients.
//   target    host memory            file         buffers in host memory, for min(B, groups) sub-groups of G elements
//   cpu       (g + w + m) E          -            p G each, B = 2 (3 with parameters in a file)
//   nvme      g E                    (w + m) E    (p + w + m) G each, B = 3
// In stage 1, and where world_invariant adds by a tree, gradients stay in device memory and pass through the buffers: g G more each, in
// place of g E. G: sub_group_size or E, whichever is smaller, rounded up to 64 (cpu) or 2048 (nvme); a file holds whole sub-groups.
// Muon's sub-groups are whole parameters, and G the longest of them; each memory in which it works has its scratch too (optim/muon.h).
// offload_parameters (stage 3): device memory holds the persistent parameters alone; the rank's part of all (Ψr and its frozen ones) is
// in host memory (cpu: p each, and no p G) or in the file (nvme: p G too), beside a fixed staging buffer.
//
// Example:
//   MemoryBytes m = PredictMemory(layout, options, /*rank=*/0);
//   int64_t sent = PredictDataBytes(layout, options, /*rank=*/0);
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

// Bytes of one rank, as the MemoryLedger files them.
struct MemoryBytes {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t master_weights = 0;  // 0: fp32 parameters are their own
  int64_t moments = 0;
  int64_t communication = 0;  // gathered units, gradients in flight, staging, scalars, Muon's scratch
};

// `rank` is one of all ranks in all of these.
// In device memory.
MemoryBytes PredictMemory(const Layout& layout, const EngineOptions& options, int rank);
// In the memory of the host (Device::host), where offload puts it: 0 without.
MemoryBytes PredictHostMemory(const Layout& layout, const EngineOptions& options, int rank);
// Sizes of the communicators that the engine splits off (rank_groups.h), each of which has its backend's memory beside.
std::vector<int> SplitSizes(const EngineOptions& options, int world_size);
// In the rank's files of offloaded state.
int64_t PredictFileBytes(const Layout& layout, const EngineOptions& options, int rank);

// Of `communication`. Gathered: the slots of gather_plan.h (the largest unit's own sections, 1 + prefetch times; all units' once, with
// keep_parameters) and each tied parameter. In flight: the largest unit's gradient, twice with overlap, or one bucket, whichever is
// larger; and each gradient that is summed over several uses; with communication_dtype, copies of all that in it too (stages 0 and 1:
// of all gradients). Both 0 where nothing is gathered, or in flight.
int64_t GatheredBytes(const Layout& layout, const EngineOptions& options);
int64_t InFlightBytes(const Layout& layout, const EngineOptions& options);

// Gradients and parameters that `rank` sends in a step in which each micro-batch runs every unit once, in order, and backward in
// reverse; by the direct schedules. 0 with one rank.
int64_t PredictDataBytes(const Layout& layout, const EngineOptions& options, int rank);

// How often a micro-batch gathers a section in stage 3: for each pass that reads it, unless a unit on it kept it (PlanPasses): so twice;
// once where backward reads no parameter or finds it kept; once more where the unit is recomputed. A persistent one: never.
int GathersPerMicroBatch(const Layout& layout, const EngineOptions& options, int section);

}  // namespace zeroshard::zero
