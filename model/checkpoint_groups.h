// How activation checkpointing groups a model's blocks: `checkpoint_every` consecutive ones a group, the last group what is left;
// all of them, where it is off.
//
// Forward keeps the input of each group, and there is memory for the activations of one group's blocks. So when backward begins,
// those of the last group are there: it is not run again, and its input is not kept.
//
// Example: five blocks, two a group: {0, 1}, {2, 3}, {4}.
//   const CheckpointGroups groups(/*layers=*/5, /*checkpoint_every=*/2);
//   groups.count();      // 3
//   groups.kept();       // 2 inputs
//   groups.GroupOf(3);   // 1
//   groups.RunsAgain(4);  // false
#pragma once

#include <algorithm>
#include <cstdint>

namespace zeroshard::model {

class CheckpointGroups {
 public:
  CheckpointGroups(int64_t layers, int64_t checkpoint_every)
      : layers_(layers), size_(checkpoint_every == 0 ? layers : std::min(checkpoint_every, layers)) {}

  // Blocks of a group: those whose activations there is memory for.
  int64_t size() const { return size_; }
  int64_t count() const { return (layers_ + size_ - 1) / size_; }
  // Groups whose input is kept, and whose blocks run forward again: all but the last.
  int64_t kept() const { return count() - 1; }

  int64_t GroupOf(int64_t layer) const { return layer / size_; }
  // Where in its group a block is; and which of the `size()` activations are its.
  int64_t PlaceOf(int64_t layer) const { return layer % size_; }
  bool IsFirst(int64_t layer) const { return PlaceOf(layer) == 0; }
  bool IsLast(int64_t layer) const { return PlaceOf(layer) == size_ - 1 || layer == layers_ - 1; }
  bool RunsAgain(int64_t layer) const { return GroupOf(layer) < kept(); }

 private:
  int64_t layers_;
  int64_t size_;
};

}  // namespace zeroshard::model
