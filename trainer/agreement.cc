#include "zeroshard/trainer/agreement.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {
namespace {

// Every rank's number, by rank.
absl::StatusOr<std::vector<int64_t>> GatherNumbers(comm::Communicator& communicator, int64_t mine) {
  device::Device& device = communicator.device();
  const int64_t ranks = communicator.world_size();
  ZS_ASSIGN_OR_RETURN(const device::Buffer one, device.Allocate(8, device::Use::kData, "number of this rank"));
  ZS_ASSIGN_OR_RETURN(const device::Buffer all, device.Allocate(8 * ranks, device::Use::kData, "numbers of all ranks"));
  const device::Array in = one.array(device::DType::kInt64), out = all.array(device::DType::kInt64);
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  device.CopyFromHost(*stream, &mine, in);
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(
      communicator.AllGather(in, out, {.wait_at_once = true, .traffic = comm::Traffic::kControl, .label = "agreement"})
          .Wait());
  std::vector<int64_t> numbers(static_cast<size_t>(ranks));
  device.CopyToHost(*stream, out, numbers.data());
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(device.status());
  return numbers;
}

}  // namespace

absl::StatusOr<uint64_t> AgreeOnSeed(comm::Communicator& communicator, uint64_t seed) {
  ZS_ASSIGN_OR_RETURN(const std::vector<int64_t> seeds, GatherNumbers(communicator, static_cast<int64_t>(seed)));
  return static_cast<uint64_t>(seeds[0]);
}

int64_t Fingerprint(const TrainOptions& options) {
  const model::GptOptions& m = options.run.model;
  const zero::EngineOptions& e = options.run.engine;
  const optim::OptimizerOptions& o = e.optimizer;
  std::string text = absl::StrJoin({m.layers, m.heads, m.width, m.context, m.vocab, int64_t{m.tied}, options.run.rows,
                                    options.steps, options.sample_tokens, options.run.data.tokens},
                                   ",");
  absl::StrAppend(&text, ";", e.stage, ",", static_cast<int>(e.partition), ",", static_cast<int>(e.owner), ",",
                  e.reduce_scatter, ",", e.round_robin_gradients, ",", e.overlap, ",", e.keep_parameters, ",", e.prefetch,
                  ",", e.accumulation);
  absl::StrAppend(&text, ",", e.reduce_bucket_size, ",", static_cast<int>(o.kind), ",", o.nesterov, ",",
                  optim::Describe(o.schedule));
  std::vector<double> reals = {e.clip, o.beta1, o.beta2, o.eps, o.momentum};
  absl::StrAppend(&text, ",", options.eval_every, ",", options.eval_batches, ",", options.eval_data.tokens, ",",
                  options.max_skipped, ",", options.recording.trace_path.empty() ? 0 : 1, ",", options.recording.first, ",",
                  options.recording.last);
  for (const optim::GroupOptions& group : o.groups) reals.push_back(group.weight_decay);
  for (const double real : reals) absl::StrAppendFormat(&text, ";%.17g", real);
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return static_cast<int64_t>(hash);
}

absl::Status CheckAgreement(comm::Communicator& communicator, int64_t fingerprint) {
  ZS_ASSIGN_OR_RETURN(const std::vector<int64_t> all, GatherNumbers(communicator, fingerprint));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " was not given rank 0's flags or data: give every rank the same"));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::trainer
