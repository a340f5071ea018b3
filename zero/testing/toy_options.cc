#include "zeroshard/zero/testing/toy_options.h"

namespace zeroshard::zero::testing {

EngineOptions ToyOptions(int stage, Partition partition) {
  EngineOptions options;
  options.stage = stage;
  options.partition = partition;
  options.reduce_bucket_size = 700;
  options.clip = 0.5;
  options.optimizer.groups = {{.weight_decay = 0.1}, {}};
  return options;
}

void ForEachStageAndPartition(int least_stage, const std::function<void(int stage, Partition partition)>& check) {
  for (int stage = least_stage; stage <= 3; ++stage) {
    for (Partition partition : {Partition::kFlat, Partition::kTensor}) check(stage, partition);
  }
}

}  // namespace zeroshard::zero::testing
