#include "zeroshard/zero/layout.h"

#include <algorithm>

#include "zeroshard/zero/layout_builder.h"

namespace zeroshard::zero {

Range Intersect(Range a, Range b) {
  const int64_t first = std::max(a.first, b.first);
  const int64_t end = std::min(a.end(), b.end());
  return end > first ? Range{first, end - first} : Range{first, 0};
}

LayoutOptions LayoutOptionsOf(const EngineOptions& options, int world_size) {
  return {.partition = options.partition,
          .owner = options.owner,
          .round_robin_gradients = options.round_robin_gradients,
          .world_size = ShardSize(options, world_size),
          .replicas = world_size / ShardSize(options, world_size),
          .persistence_threshold = ShardsParameters(options.stage) ? options.persistence_threshold : 0};
}

absl::StatusOr<Layout> Layout::Create(const std::vector<model::UnitSpec>& units, const LayoutOptions& options) {
  return LayoutBuilder(options).Build(units);
}

std::optional<int> Layout::Find(std::string_view name) const {
  const auto at = std::lower_bound(names_.begin(), names_.end(), name,
                                   [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  if (at == names_.end() || at->first != name) return std::nullopt;
  return at->second;
}

int64_t Layout::model_elements() const {
  int64_t n = 0;
  for (const Parameter& parameter : parameters_) n += parameter.elements;
  return n;
}

int64_t Layout::OwnElements(int unit) const {
  int64_t n = 0;
  for (int i = 0; i < units_[unit].own_sections; ++i) {
    const Section& section = sections_[units_[unit].sections[i]];
    if (!section.persistent) n += section.elements;
  }
  return n;
}

int64_t Layout::OwnTrainableElements(int unit) const {
  int64_t n = 0;
  for (int i = 0; i < units_[unit].own_sections; ++i) {
    const Section& section = sections_[units_[unit].sections[i]];
    if (section.trainable) n += section.elements;
  }
  return n;
}

}  // namespace zeroshard::zero
