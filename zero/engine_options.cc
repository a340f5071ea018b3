#include "zeroshard/zero/engine_options.h"

#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/offload/state_folder.h"

namespace zeroshard::zero {
namespace {

constexpr std::array<std::string_view, 2> kPartitionNames = {"flat", "tensor"};
constexpr std::array<std::string_view, 3> kOwnershipNames = {"round_robin", "contiguous", "balanced"};
constexpr std::array<std::string_view, 3> kOffloadTargetNames = {"none", "cpu", "nvme"};

template <class Enum, size_t kCount>
std::optional<Enum> Parse(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

absl::Status AtLeast(const char* option, int64_t value, int64_t smallest) {
  if (value >= smallest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " is ", value, "; it is at least ", smallest));
}

bool IsTrainingDType(device::DType dtype) {
  return dtype == device::DType::kFloat32 || dtype == device::DType::kBfloat16 || dtype == device::DType::kFloat16;
}

// Gradients are kept in what backward computes in, or in fp32.
absl::Status CheckDTypes(const EngineOptions& options) {
  const device::DType gradients = options.gradient_dtype.value_or(options.dtype);
  if (!IsTrainingDType(options.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype is ", std::string(device::Name(options.dtype)), "; it is fp32, bf16 or fp16"));
  }
  const device::DType wire = options.communication_dtype.value_or(device::DType::kFloat32);
  if (!IsTrainingDType(wire)) {
    return absl::InvalidArgumentError(
        absl::StrCat("communication_dtype is ", std::string(device::Name(wire)), "; it is fp32, bf16 or fp16"));
  }
  const double factor = options.gradient_predivide_factor;
  if (!std::isfinite(factor) || factor <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient_predivide_factor is ", factor, "; it is finite and above 0, say 1 or the number of ranks"));
  }
  if (gradients == options.dtype || gradients == device::DType::kFloat32) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gradient_dtype is ", std::string(device::Name(gradients)), " with dtype ",
                                                 std::string(device::Name(options.dtype)),
                                                 "; gradients are kept in dtype or in fp32"));
}

absl::Status CheckOffloaded(const char* option, const OffloadOptions& offload, int stage, int least_stage, const char* why) {
  if (offload.target == OffloadTarget::kNone) return absl::OkStatus();
  if (stage < least_stage) {
    return absl::InvalidArgumentError(absl::StrCat(option, " is ", std::string(Name(offload.target)), " in stage ", stage,
                                                   ", which ", why, "; use a stage from ", least_stage, " on, or none"));
  }
  return offload.target == OffloadTarget::kFile ? CheckStateFolder(offload.folder) : absl::OkStatus();
}

absl::Status CheckOffload(const EngineOptions& options) {
  ZS_RETURN_IF_ERROR(CheckOffloaded("offload_optimizer", options.offload_optimizer, options.stage, /*least_stage=*/1,
                                    "shards no optimizer state"));
  ZS_RETURN_IF_ERROR(CheckOffloaded("offload_parameters", options.offload_parameters, options.stage, /*least_stage=*/3,
                                    "shards no parameters"));
  ZS_RETURN_IF_ERROR(AtLeast("sub_group_size", options.sub_group_size, 1));
  if (options.offload_parameters.target != OffloadTarget::kNone &&
      (options.offload_optimizer.target == OffloadTarget::kNone || options.offload_ratio != 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "offload_parameters is ", std::string(Name(options.offload_parameters.target)), " with offload_optimizer ",
        std::string(Name(options.offload_optimizer.target)), " and offload_ratio ", options.offload_ratio,
        "; parameters that are not in device memory are updated where the optimizer's state is: offload all of it (cpu or "
        "nvme, "
        "ratio 1), or keep the parameters (none)"));
  }
  if (options.offload_ratio >= 0 && options.offload_ratio <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("offload_ratio is ", options.offload_ratio, "; it is a share of the optimizer's elements, 0 to 1"));
}

absl::Status CheckWorldInvariant(const EngineOptions& options) {
  if (!options.world_invariant) return absl::OkStatus();
  if (!std::has_single_bit(static_cast<unsigned>(options.accumulation))) {
    return absl::InvalidArgumentError(
        absl::StrCat("accumulation is ", options.accumulation,
                     " with world_invariant; it is a power of two, or the sums of micro-batches "
                     "are no part of the sum over as many ranks"));
  }
  if (options.communication_dtype.value_or(device::DType::kFloat32) != device::DType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("communication_dtype is ", std::string(device::Name(*options.communication_dtype)),
                     " with world_invariant, which rounds no sum of a part of the micro-batches; it is fp32, or left out"));
  }
  return absl::OkStatus();
}

// Muon works on whole matrices: where the optimizer's state is sharded, each has to have one owner, in its memory.
absl::Status CheckMuon(const EngineOptions& options) {
  if (options.optimizer.kind != optim::Kind::kMuon) return absl::OkStatus();
  if (ShardsOptimizer(options.stage) && options.partition == Partition::kFlat) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer is muon, stage ", options.stage,
                                                   " and partition flat: a flat partition cuts matrices in parts, and Muon "
                                                   "needs them whole; take partition tensor, or stage 0"));
  }
  if (options.offload_parameters.target != OffloadTarget::kFile) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "optimizer is muon, and offload_parameters is nvme: sub-groups of whole matrices do not end where a file's pages do; "
      "keep "
      "parameters in host memory (cpu)");
}

}  // namespace

absl::Status Validate(const EngineOptions& options) {
  if (options.stage < 0 || options.stage > 3) {
    return absl::InvalidArgumentError(absl::StrCat("stage is ", options.stage, "; stages are 0, 1, 2 and 3"));
  }
  ZS_RETURN_IF_ERROR(CheckDTypes(options));
  ZS_RETURN_IF_ERROR(AtLeast("reduce_bucket_size", options.reduce_bucket_size, 1));
  ZS_RETURN_IF_ERROR(AtLeast("shard_size", options.shard_size, 0));
  ZS_RETURN_IF_ERROR(AtLeast("prefetch", options.prefetch, 0));
  ZS_RETURN_IF_ERROR(AtLeast("accumulation", options.accumulation, 1));
  ZS_RETURN_IF_ERROR(CheckWorldInvariant(options));
  ZS_RETURN_IF_ERROR(AtLeast("prefetch_bucket_size", options.prefetch_bucket_size, 0));
  ZS_RETURN_IF_ERROR(AtLeast("persistence_threshold", options.persistence_threshold, 0));
  ZS_RETURN_IF_ERROR(AtLeast("max_live_parameters", options.max_live_parameters, 0));
  ZS_RETURN_IF_ERROR(AtLeast("max_reuse_distance", options.max_reuse_distance, 0));
  ZS_RETURN_IF_ERROR(AtLeast("allgather_bucket_size", options.allgather_bucket_size, 0));
  if (!std::isfinite(options.clip) || options.clip < 0) {
    return absl::InvalidArgumentError(absl::StrCat("clip is ", options.clip, "; it is a finite norm, or 0 for none"));
  }
  if (!std::isfinite(options.gradient_scale) || options.gradient_scale <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient_scale is ", options.gradient_scale, "; it is finite and above 0"));
  }
  ZS_RETURN_IF_ERROR(CheckOffload(options));
  ZS_RETURN_IF_ERROR(CheckMuon(options));
  return optim::Validate(options.optimizer);
}

std::string_view Name(Partition partition) { return kPartitionNames[static_cast<size_t>(partition)]; }
std::string_view Name(Ownership owner) { return kOwnershipNames[static_cast<size_t>(owner)]; }
std::string_view Name(OffloadTarget target) { return kOffloadTargetNames[static_cast<size_t>(target)]; }
std::optional<Partition> ParsePartition(std::string_view name) { return Parse<Partition>(kPartitionNames, name); }
std::optional<Ownership> ParseOwnership(std::string_view name) { return Parse<Ownership>(kOwnershipNames, name); }
std::optional<OffloadTarget> ParseOffloadTarget(std::string_view name) {
  return Parse<OffloadTarget>(kOffloadTargetNames, name);
}

}  // namespace zeroshard::zero
