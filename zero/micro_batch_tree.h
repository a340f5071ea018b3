// Adds up a section's sums of micro-batches as ranks are added: neighbours first, ((0+1)+(2+3)), an odd one out passing up unchanged.
// So a sum over 2 ranks and 4 micro-batches is the sum over 8 ranks (world_invariant).
//
// A binary counter of partial sums: level l holds the sum of 2^l micro-batches, or nothing. One that comes is added to level 0 and
// carried on as long as a level is taken. log2(accumulation) buffers are enough, since the one that comes lies elsewhere.
//
// Example: four micro-batches, two buffers.
//   MicroBatchTree tree({a, b}, /*micro_batches=*/4);
//   tree.Next();   // 0: overwrite a
//   tree.Next();   // 1: add to a
//   tree.Next();   // 2: overwrite b
//   tree.Next();   // 3: add to b, and b to a
//   tree.Finish(stream);
//   tree.sum();    // a
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/device.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero {

// Buffers of fp32 that each section needs: log2(accumulation), at least one; 0 where micro-batches are not added by a tree.
int TreeBuffers(const EngineOptions& options);

// Whether sums over so many ranks and micro-batches nest. Errors: kInvalidArgument, with the reason.
absl::Status CheckTree(const EngineOptions& options, int world_size);

class MicroBatchTree {
 public:
  // `buffers`: at least one, all of the same size.
  MicroBatchTree(std::vector<device::Array> buffers, int micro_batches);

  // Where the next micro-batch lands, and on what that is then added, one after another.
  struct Landing {
    device::Array buffer;
    bool accumulate = false;
    std::span<const device::Array> carries;  // valid until the next call
  };
  // What was landed before it has been queued.
  Landing Next();
  // Adds up what is left. Idempotent.
  void Finish(device::Stream& stream);
  // After Finish. Before any Next: the first buffer.
  const device::Array& sum() const { return buffers_[sum_]; }
  // Forgets all micro-batches.
  void Clear();

 private:
  int FreeBuffer() const;

  std::vector<device::Array> buffers_;
  std::vector<int> level_;  // the buffer that holds it; -1: none
  std::vector<device::Array> carries_;
  int sum_ = 0;
};

}  // namespace zeroshard::zero
