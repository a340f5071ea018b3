#include "zeroshard/trainer/span_count.h"

#include <algorithm>

namespace zeroshard::trainer {

int64_t SpansPerStep(const zero::Layout& layout, const zero::EngineOptions& options) {
  const auto units = static_cast<int64_t>(layout.units().size() + layout.sections().size());
  // Where each owner is sent to, or sends, by itself.
  const int64_t owners =
      options.partition == zero::Partition::kTensor || !options.allgather_partitions ? layout.world_size() : 1;
  const int64_t buckets = layout.trainable_elements() / std::max<int64_t>(1, options.reduce_bucket_size) + units;
  const int64_t gathers = units * (owners + 1);           // and a wait each
  const int64_t reductions = buckets * (2 * owners + 2);  // a wait, and what is added
  const int64_t micro_batch = 3 * (units + gathers) + reductions + 8;
  const int64_t passes = layout.trainable_elements() / std::max<int64_t>(1, options.sub_group_size) + 1;
  // Twice: a hybrid reduces and gathers on two levels.
  return 2 * (options.accumulation * micro_batch + gathers + reductions + 8 * passes + 32);
}

}  // namespace zeroshard::trainer
