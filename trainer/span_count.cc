#include "zeroshard/trainer/span_count.h"

#include <algorithm>

namespace zeroshard::trainer {
namespace {

// A hybrid reduces and gathers on two levels.
constexpr int64_t kLevels = 2;
constexpr int64_t kOnce = 32;  // the step itself, its reads, norms, losses, and waits for them

// One pass over the units: their computing; in stage 3 each section gathered, by a collective of each owner perhaps, brought up
// from a tier, and waited for; and as much again for what was gathered ahead in vain.
int64_t SpansPerPass(const zero::Layout& layout, int64_t owners) {
  int64_t spans = 0;
  for (const zero::UnitLayout& unit : layout.units()) {
    spans += unit.uses * (1 + static_cast<int64_t>(unit.sections.size()) * 2 * (kLevels * owners + 2));
  }
  return spans;
}

// Of `size` elements rounded down to a multiple of 64 N, at least one.
int64_t Buckets(int64_t elements, int64_t size, int world_size) {
  return elements / std::max(zero::kAlignmentElements * world_size, size / 2) + 1;
}

}  // namespace

int64_t SpansPerStep(const zero::Layout& layout, const zero::EngineOptions& options) {
  const int64_t owners = layout.world_size();  // each may be sent to, or send, by itself
  const int64_t trainable = layout.trainable_elements();
  const auto units = static_cast<int64_t>(layout.units().size());
  const auto sections = static_cast<int64_t>(layout.sections().size());
  // Flights are flushed, landed and added up once a section, or unit, besides.
  const int64_t reductions = Buckets(trainable, options.reduce_bucket_size, layout.world_size()) + units + sections;
  // Each to its owner and back to all, or waited for at once; what has landed is added, and copied to the host.
  const int64_t micro_batch = 3 * SpansPerPass(layout, owners) + reductions * (kLevels * 2 * owners + 4) + 2 * units;
  // A unit at a time, or a bucket; then waited for by section.
  const int64_t updated =
      options.allgather_bucket_size == 0 ? units : Buckets(trainable, options.allgather_bucket_size, layout.world_size());
  const int64_t groups = trainable / std::max<int64_t>(1, options.sub_group_size) + 1;  // each comes and goes
  return options.accumulation * micro_batch + updated * kLevels * owners + sections + 2 * groups + kOnce;
}

int64_t SpansPerEvaluation(const zero::Layout& layout, int64_t batches) {
  return batches * (SpansPerPass(layout, layout.world_size()) + 1) + kOnce;
}

}  // namespace zeroshard::trainer
