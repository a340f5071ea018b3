#include "zeroshard/zero/formulas.h"

#include <algorithm>
#include <set>

#include "zeroshard/device/dtype.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/step_scalars.h"
#include "zeroshard/optim/muon.h"
#include "zeroshard/optim/optimizer.h"
#include "zeroshard/zero/bucket_reduction.h"
#include "zeroshard/zero/gather_plan.h"
#include "zeroshard/zero/holding.h"
#include "zeroshard/zero/micro_batch_tree.h"
#include "zeroshard/zero/non_finite.h"
#include "zeroshard/zero/offload/host_gradients.h"
#include "zeroshard/zero/offload/offload_plan.h"
#include "zeroshard/zero/offload/parameter_tier.h"
#include "zeroshard/zero/parts.h"
#include "zeroshard/zero/precision.h"
#include "zeroshard/zero/rank_minimum.h"
#include "zeroshard/zero/tensor_access.h"

namespace zeroshard::zero {
namespace {

constexpr int64_t kFp32Bytes = SizeOf(device::DType::kFloat32);

int64_t Scratch(const Layout& layout) {
  // The norm's words and one for the ranks' signatures; the scalars, and the host's copy of them and of the signatures.
  const int64_t norm = (device::kExactSumWords + 1) * SizeOf(device::DType::kInt64);
  const int64_t scalars = 2 * static_cast<int64_t>(sizeof(device::StepScalars)) + SizeOf(device::DType::kInt64);
  const int64_t watch = NonFiniteWatch::Bytes(layout) + RankMinimum::kBytes;
  return norm + scalars + watch + StagingElements(layout) * kFp32Bytes;
}

// Bytes that the rank with this part sends when all gradients are reduced once.
int64_t ReductionBytes(const Layout& layout, const EngineOptions& options, int part) {
  const int64_t n = layout.world_size();
  const int64_t ranks = layout.ranks();
  const int64_t replicas = layout.options().replicas;
  const int64_t wire = SizeOf(PrecisionOf(options, layout.ranks()).wire);
  const int64_t all = layout.trainable_elements();
  const int64_t own = layout.OwnedTrainable(part);
  int64_t owned = 0;
  for (int r = 0; r < n; ++r) owned += layout.OwnedTrainable(r);
  // Across replicas: fp32 to where it is summed, what it is rounded to from there.
  const int64_t across = own / replicas * (replicas - 1) * (kFp32Bytes + wire);
  switch (RouteOf(options, layout)) {
    case Route::kReduceScatter:
      return all / n * (n - 1) * wire + across;
    case Route::kAllReduce:
      return 2 * (all / ranks * (ranks - 1)) * wire;
    case Route::kReduceToOwner:
      return (owned - own) * wire + across;
    case Route::kReduceAndBroadcast:
      return (owned - own + (n - 1) * own) * wire;
  }
  return 0;
}

// Of Muon's scratch, in the memory where the state from `first` to `end` lies (OffloadPlan::first cuts no matrix).
int64_t MuonBytes(const Layout& layout, const EngineOptions& options, int part, int64_t first, int64_t end) {
  if (options.optimizer.kind != optim::Kind::kMuon) return 0;
  std::vector<Part> parts = PartsOf(layout, options.stage, part);
  std::erase_if(parts, [&](const Part& p) { return p.state_first < first || p.state_first >= end; });
  return optim::Muon::ScratchBytes(optim::MatricesOf(options.optimizer, RunsOf(layout, parts)));
}

// Elements of parameters that `rank` holds in device memory from step to step.
int64_t ParameterElements(const Layout& layout, const EngineOptions& options, int rank) {
  int64_t elements = 0;
  for (const Section& section : layout.sections()) {
    const bool whole = !ShardsParameters(options.stage) || section.persistent;
    if (whole) elements += section.elements;
    if (!whole && options.offload_parameters.target == OffloadTarget::kNone) elements += section.Owned(rank).count;
  }
  return elements;
}

// How often a micro-batch gathers the section: wherever no unit on it holds it already.
int Gathers(const Layout& layout, const std::vector<PlannedPass>& passes, int section) {
  const Section& s = layout.sections()[section];
  if (s.persistent) return 0;
  std::set<int> held;  // by these units
  int gathers = 0;
  for (const PlannedPass& pass : passes) {
    if (std::find(s.units.begin(), s.units.end(), pass.unit) == s.units.end()) continue;
    gathers += held.empty();
    if (pass.keeps) {
      held.insert(pass.unit);
    } else {
      held.erase(pass.unit);
    }
  }
  return gathers;
}

}  // namespace

int64_t GatheredBytes(const Layout& layout, const EngineOptions& options) {
  return ShardsParameters(options.stage) ? PlanGathers(layout, options).Elements() * SizeOf(options.dtype) : 0;
}

int64_t InFlightBytes(const Layout& layout, const EngineOptions& options) {
  const Precision precision = PrecisionOf(options, layout.ranks());
  const int64_t copied = precision.converts() ? SizeOf(precision.wire) : 0;
  if (!ShardsGradients(options.stage)) return layout.trainable_elements() * copied;
  int64_t largest = 0;
  int64_t all = 0;
  int64_t summed = 0;
  for (int s = 0; s < layout.trainable_sections(); ++s) {
    const Section& section = layout.sections()[s];
    if (section.alone()) {
      summed += section.elements;
    } else {
      largest = std::max(largest, layout.OwnTrainableElements(section.units.front()));
      all += section.elements;
    }
  }
  const int64_t slots = options.overlap ? 2 : 1;
  const int64_t bucket = std::min(all, RoundedBucketElements(options.reduce_bucket_size, layout.ranks()));
  return (std::max(slots * largest, RoundUp(bucket, slots * kAlignmentElements)) + summed) *
         (SizeOf(precision.backward) + copied);
}

MemoryBytes PredictMemory(const Layout& layout, const EngineOptions& options, int of_all) {
  const int rank = layout.PartOf(of_all);
  const int64_t trainable = layout.trainable_elements();
  const int64_t updated = OffloadPlanOf(layout, options, rank).first;  // in device memory
  const Precision precision = PrecisionOf(options, layout.ranks());
  MemoryBytes bytes;
  bytes.parameters = ParameterElements(layout, options, rank) * SizeOf(precision.parameters);
  const int64_t sums = TreeBuffers(options) * StateElements(layout, options.stage, rank) * kFp32Bytes;
  if (ShardsGradients(options.stage)) {
    bytes.gradients = sums > 0 ? sums : updated * SizeOf(precision.gradients);
  } else {
    bytes.gradients = trainable * SizeOf(precision.backward) + sums;
  }
  bytes.master_weights = precision.has_masters() ? updated * kFp32Bytes : 0;
  bytes.moments = updated * optim::StateBytesPerElement(options.optimizer);
  bytes.communication = GatheredBytes(layout, options) + InFlightBytes(layout, options) + Scratch(layout) +
                        StagedElements(options, layout) * kFp32Bytes + MuonBytes(layout, options, rank, 0, updated);
  return bytes;
}

MemoryBytes PredictHostMemory(const Layout& layout, const EngineOptions& options, int of_all) {
  const int rank = layout.PartOf(of_all);
  const OffloadPlan plan = OffloadPlanOf(layout, options, rank);
  MemoryBytes bytes;
  const Precision precision = PrecisionOf(options, layout.ranks());
  const OffloadTarget parameters =
      ShardsParameters(options.stage) ? options.offload_parameters.target : OffloadTarget::kNone;
  if (parameters == OffloadTarget::kHost) bytes.parameters = layout.OwnedTotal(rank) * SizeOf(precision.parameters);
  if (parameters != OffloadTarget::kNone) bytes.communication = ParameterStagingBytes(options);
  if (plan.groups == 0) return bytes;
  // Of an element of a sub-group.
  int64_t buffered = parameters == OffloadTarget::kHost ? 0 : SizeOf(precision.parameters);
  if (options.offload_optimizer.target == OffloadTarget::kFile) {
    buffered += plan.states * kFp32Bytes;
  } else {
    bytes.master_weights = precision.has_masters() ? plan.offloaded() * kFp32Bytes : 0;
    bytes.moments = plan.offloaded() * optim::StateBytesPerElement(options.optimizer);
  }
  if (plan.offloads_gradients) {
    bytes.gradients = plan.offloaded() * SizeOf(precision.gradients);
    bytes.communication += LandingBytes(plan);
  } else {
    buffered += SizeOf(precision.gradients);
  }
  const int64_t norm = device::kExactSumWords * SizeOf(device::DType::kInt64);
  bytes.communication +=
      plan.buffers * plan.group_elements * buffered + norm + static_cast<int64_t>(sizeof(device::StepScalars));
  bytes.communication += MuonBytes(layout, options, rank, plan.first, plan.elements);
  return bytes;
}

std::vector<int> SplitSizes(const EngineOptions& options, int world_size) {
  const int size = ShardSize(options, world_size);
  if (size == world_size) return {};
  return size > 1 ? std::vector<int>{size, world_size / size} : std::vector<int>{size};
}

int64_t PredictFileBytes(const Layout& layout, const EngineOptions& options, int of_all) {
  const int rank = layout.PartOf(of_all);
  const int64_t parameters = ParameterFileBytes(layout, options, rank);
  if (options.offload_optimizer.target != OffloadTarget::kFile) return parameters;
  const OffloadPlan plan = OffloadPlanOf(layout, options, rank);
  return parameters + plan.groups * plan.group_elements * plan.states * kFp32Bytes;
}

int GathersPerMicroBatch(const Layout& layout, const EngineOptions& options, int section) {
  return Gathers(layout, PlanPasses(layout, options), section);
}

int64_t PredictDataBytes(const Layout& layout, const EngineOptions& options, int of_all) {
  const int rank = layout.PartOf(of_all);
  const int64_t n = layout.world_size();
  if (layout.ranks() == 1) return 0;
  const int64_t micro_batches = options.accumulation;
  const int64_t reductions = ShardsGradients(options.stage) || options.world_invariant ? micro_batches : 1;
  const int64_t reduced = reductions * ReductionBytes(layout, options, rank);
  int64_t gathered = 0;
  if (ShardsParameters(options.stage)) {
    const std::vector<PlannedPass> passes = PlanPasses(layout, options);
    for (int s = 0; s < static_cast<int>(layout.sections().size()); ++s) {
      const Section& section = layout.sections()[s];
      const int64_t own = section.Owned(rank).count;
      if (section.persistent && section.trainable) gathered += (n - 1) * own;  // at the step's end
      gathered += micro_batches * Gathers(layout, passes, s) * (n - 1) * own;
    }
  } else if (ShardsOptimizer(options.stage)) {
    gathered += (n - 1) * layout.OwnedTrainable(rank);
  }
  return reduced + gathered * SizeOf(options.dtype);
}

}  // namespace zeroshard::zero
