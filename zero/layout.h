// Where every parameter lies: units laid out in flat buffers, and which part of them each rank owns. Arithmetic alone: nothing is
// allocated, so a layout of 1e12 elements is as cheap as one of ten.
//
// A unit's parameters lie in **sections**: the trainable ones, and the frozen ones; of either those that are persistent (fewer
// elements than a threshold) apart. A tied parameter has a section of its own, which all its units share. Parameters start on
// multiples of 64 elements; each section ends padded to one of 64 N, N being all ranks, of which those of a hybrid's shard group own
// the parts. Its other groups hold the same.
//   Partition::kFlat     rank r owns the r-th of N equal parts.
//   Partition::kTensor   parameters lie in order of their owners, each padded to 64; rank r owns the stretch of its own. The
//                        section's last padding is nobody's. (Where replicas are no power of two: to a multiple of 64 and of
//                        their number, so that what each reduces of a tensor is equal.)
//
// A *full buffer* holds all sections one after another, trainable ones first: so gradients and optimizer state are a prefix of it.
// A rank's *shard buffer* holds its own parts of the sections in the same order.
//
// Example: two ranks, one unit of 100 + 30 trainable elements.
//   full buffer      | a: 0..100 | pad ..128 | b: 128..158 | pad ..256 |
//   rank 0's shard   | a: 0..100 | pad ..128 |
//   rank 1's shard                           | b: 0..30 | pad ..128 |
//
//   ZS_ASSIGN_OR_RETURN(Layout layout, Layout::Create(units, {.world_size = 2}));
//   layout.trainable_elements();          // 256
//   layout.OwnedTrainable(/*rank=*/1);    // 128
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/device/round_up.h"
#include "zeroshard/model/unit.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::zero {

// Parameters, shards and blocks of the exact norm start on multiples of this many elements.
inline constexpr int64_t kAlignmentElements = 64;

using device::RoundUp;

struct LayoutOptions {
  Partition partition = Partition::kFlat;
  Ownership owner = Ownership::kBalanced;
  bool round_robin_gradients = false;
  int world_size = 1;  // ranks that each section is split among
  int replicas = 1;    // groups of so many ranks, each of which holds all of it
  // Parameters of fewer elements are persistent: see EngineOptions.
  int64_t persistence_threshold = 0;
};

// The layout of an engine with these options on so many ranks, which CheckWorld allows.
LayoutOptions LayoutOptionsOf(const EngineOptions& options, int world_size);

// Elements first ... first + count - 1 of something.
struct Range {
  int64_t first = 0;
  int64_t count = 0;
  int64_t end() const { return first + count; }
};

// What two ranges have in common; count 0 if nothing.
Range Intersect(Range a, Range b);

// One storage. Tied parameters are one.
struct Parameter {
  model::ParameterSpec spec;  // of its first use
  int64_t elements = 0;
  int section = -1;   // -1: it has no element
  int64_t first = 0;  // within the section
  Range range() const { return {first, elements}; }
};

struct Section {
  std::string name = {};  // the unit's, or the tied parameter's
  bool trainable = true;
  bool shared = false;               // a tied parameter's
  bool persistent = false;           // stays whole on every rank from step to step
  std::vector<int> units = {};       // that use it, ascending; one, unless shared
  std::vector<int> parameters = {};  // in order of the buffer
  int64_t elements = 0;              // padded
  int64_t full_first = 0;            // where it begins in a full buffer
  // How often a micro-batch's backward adds to its gradient: uses of its units together. More than one: the gradient is summed in
  // full on the rank and reduced once.
  int contributions = 1;
  std::vector<int64_t> bounds = {};       // [world_size + 1]: rank r owns elements [bounds[r], bounds[r + 1])
  std::vector<int64_t> shard_first = {};  // [world_size]: where the rank's part begins in its shard buffer

  // Whether its gradient is in flight in memory of its own (stages 2 and 3): it waits for other units, or could.
  bool alone() const { return shared || contributions > 1; }
  Range Owned(int rank) const { return {bounds[rank], bounds[rank + 1] - bounds[rank]}; }
};

struct UnitLayout {
  std::string name = {};
  std::vector<int> parameters = {};  // storages, in the order of the unit's specs
  std::vector<int> sections = {};    // its own first, then shared ones
  int own_sections = 0;              // how many of them are its own
  bool backward_reads_parameters = true;
  int uses = 1;
  bool recomputed = false;  // forward runs once more before backward
};

class Layout {
 public:
  // Errors: kInvalidArgument, naming the parameter: two of one name, a negative dimension, more than 2^56 elements, tied to what is
  // not there or differs in shape, group or trainable.
  static absl::StatusOr<Layout> Create(const std::vector<model::UnitSpec>& units, const LayoutOptions& options);

  const LayoutOptions& options() const { return options_; }
  // Ranks that each section is split among, and all ranks: more where several groups hold the same (rank_groups.h).
  int world_size() const { return options_.world_size; }
  int ranks() const { return options_.world_size * options_.replicas; }
  // The part that one of all ranks holds: what takes a rank below, and Section::Owned, take this.
  int PartOf(int rank) const { return rank % options_.world_size; }
  const std::vector<UnitLayout>& units() const { return units_; }
  const std::vector<Section>& sections() const { return sections_; }  // trainable ones first
  int trainable_sections() const { return trainable_sections_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // The storage of that name (a tied one has several); nothing if there is none.
  std::optional<int> Find(std::string_view name) const;

  // Ψ: padded elements of all ranks together.
  int64_t trainable_elements() const { return trainable_elements_; }
  int64_t frozen_elements() const { return total_elements_ - trainable_elements_; }
  int64_t total_elements() const { return total_elements_; }
  // Elements of the model as people count them: unpadded, tied ones once, the frozen too.
  int64_t model_elements() const;

  // What a rank owns of them: the sizes of its shard buffers. All ranks' together are Ψ, but for padding that nobody owns (tensor).
  int64_t OwnedTrainable(int rank) const { return owned_trainable_[rank]; }
  int64_t OwnedTotal(int rank) const { return owned_total_[rank]; }

  // Elements of the sections that are the unit's own, persistent ones left out: what gathering it takes, shared ones apart.
  int64_t OwnElements(int unit) const;
  // Trainable elements of the unit's own sections: what its gradient takes, shared ones apart.
  int64_t OwnTrainableElements(int unit) const;

 private:
  friend class LayoutBuilder;
  Layout() = default;

  LayoutOptions options_;
  std::vector<UnitLayout> units_;
  std::vector<Section> sections_;
  std::vector<Parameter> parameters_;
  std::vector<std::pair<std::string, int>> names_;  // sorted
  int trainable_sections_ = 0;
  int64_t trainable_elements_ = 0;
  int64_t total_elements_ = 0;
  std::vector<int64_t> owned_trainable_;  // [world_size]
  std::vector<int64_t> owned_total_;      // [world_size]
};

}  // namespace zeroshard::zero
