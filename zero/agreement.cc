#include "zeroshard/zero/agreement.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/text_hash.h"

namespace zeroshard::zero {
namespace {

using device::Array;
using device::DType;

// All that changes what is computed, and when what is sent.
std::string Text(const EngineOptions& o) {
  std::string text = absl::StrCat(
      "stage ", o.stage, ", partition ", static_cast<int>(o.partition), ", owner ", static_cast<int>(o.owner),
      ", reduce_bucket_size ", o.reduce_bucket_size, ", reduce_scatter ", o.reduce_scatter, ", round_robin_gradients ",
      o.round_robin_gradients, ", overlap ", o.overlap, ", prefetch ", o.prefetch, ", keep_parameters ", o.keep_parameters);
  absl::StrAppend(&text, ", accumulation ", o.accumulation, ", clip ", o.clip, ", average ", o.average, ", gradient_scale ",
                  o.gradient_scale);
  absl::StrAppend(&text, ", dtype ", static_cast<int>(o.dtype), ", gradient_dtype ",
                  o.gradient_dtype ? static_cast<int>(*o.gradient_dtype) : -1, ", communication_dtype ",
                  o.communication_dtype ? static_cast<int>(*o.communication_dtype) : -1, ", prescale_gradients ",
                  o.prescale_gradients, " ", o.gradient_predivide_factor);
  absl::StrAppend(&text, ", prefetch_bucket_size ", o.prefetch_bucket_size, ", persistence_threshold ",
                  o.persistence_threshold, ", max_live_parameters ", o.max_live_parameters, ", max_reuse_distance ",
                  o.max_reuse_distance, ", allgather_bucket_size ", o.allgather_bucket_size, ", allgather_partitions ",
                  o.allgather_partitions, ", world_invariant ", o.world_invariant, ", shard_size ", o.shard_size);
  const optim::OptimizerOptions& p = o.optimizer;
  const optim::LossScale& l = p.loss_scale;
  absl::StrAppend(&text, ", loss_scale ", static_cast<int>(l.kind), " ", l.value, " ", l.initial_power, " ", l.window, " ",
                  l.hysteresis, " ", l.consecutive_hysteresis, " ", l.minimum);
  absl::StrAppend(&text, ", optimizer ", static_cast<int>(p.kind), " ", p.beta1, " ", p.beta2, " ", p.eps, " ", p.momentum,
                  " ", p.nesterov);
  absl::StrAppend(&text, ", schedule ", optim::Describe(p.schedule), ", groups");
  for (const optim::GroupOptions& group : p.groups)
    absl::StrAppend(&text, " ", group.weight_decay, "/", group.learning_rate_scale, "/", group.orthogonal);
  return text;
}

std::string Text(const Layout& layout) {
  std::string text;
  for (const UnitLayout& unit : layout.units()) {
    absl::StrAppend(&text, unit.name, " ", unit.backward_reads_parameters, " ", unit.uses, " ", unit.recomputed, ": ",
                    absl::StrJoin(unit.parameters, " "), "\n");
  }
  for (const Parameter& p : layout.parameters()) {
    absl::StrAppend(&text, p.spec.name, " [", absl::StrJoin(p.spec.shape, ", "), "] ", p.spec.group, " ", p.spec.trainable,
                    p.spec.frozen, "\n");
  }
  return text;
}

// Folded to what an fp64 holds exactly.
double Hash(std::string_view text) {
  const uint64_t hash = device::TextHash(text);
  return static_cast<double>((hash ^ (hash >> 52)) & ((uint64_t{1} << 52) - 1));
}

}  // namespace

absl::Status CheckAgreement(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                            device::Stream& stream) {
  constexpr int kWords = 2;
  device::Device& device = communicator.device();
  const int world_size = communicator.world_size();
  ZS_ASSIGN_OR_RETURN(const device::Buffer buffer, device.Allocate((1 + world_size) * kWords * SizeOf(DType::kInt64),
                                                                   device::Use::kCommunication, "agreement"));
  const Array mine = buffer.array(DType::kInt64).Slice(0, kWords);
  const Array all = buffer.array(DType::kInt64).Slice(kWords, kWords * world_size);
  device.elementwise().Fill(stream, mine.Slice(0, 1), Hash(Text(options)));
  device.elementwise().Fill(stream, mine.Slice(1, 1), Hash(Text(layout)));
  stream.Synchronize();
  ZS_RETURN_IF_ERROR(
      communicator
          .AllGather(mine, all,
                     {.after = {}, .wait_at_once = true, .traffic = comm::Traffic::kControl, .label = "agreement"})
          .Wait());
  std::vector<int64_t> words(all.elements());
  device.CopyToHost(stream, all, words.data());
  stream.Synchronize();
  const int64_t* own = words.data() + kWords * communicator.rank();
  for (int r = 0; r < world_size; ++r) {
    const int64_t* theirs = words.data() + kWords * r;
    if (theirs[0] != own[0]) {
      return absl::FailedPreconditionError(absl::StrCat("rank ", r, " was given other options than rank ",
                                                        communicator.rank(), ", which has: ", Text(options)));
    }
    if (theirs[1] != own[1]) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", r, " was given another model than rank ", communicator.rank(), ", which has ",
                       layout.units().size(), " units of ", layout.model_elements(),
                       " elements; names, shapes, groups, frozen and tied parameters have to be the same"));
    }
  }
  return device.status();
}

}  // namespace zeroshard::zero
