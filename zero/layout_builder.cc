#include "zeroshard/zero/layout_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/ownership.h"

namespace zeroshard::zero {
namespace {

// Padding and bytes of what is below this stay far inside int64.
constexpr int64_t kMaxElements = int64_t{1} << 56;

std::string Describe(const model::ParameterSpec& spec) {
  return absl::StrCat("parameter ", spec.name, " [", absl::StrJoin(spec.shape, ", "), "]");
}

absl::StatusOr<int64_t> CountElements(const model::ParameterSpec& spec) {
  int64_t n = 1;
  for (int64_t d : spec.shape) {
    if (d < 0) return absl::InvalidArgumentError(absl::StrCat(Describe(spec), " has a negative dimension"));
    if (d > 0 && n > kMaxElements / d) {
      return absl::InvalidArgumentError(absl::StrCat(Describe(spec), " has more than 2^56 elements"));
    }
    n *= d;
  }
  return n;
}

// 0, N, 2N, ..., 1, N + 1, ...
std::vector<int> RoundRobin(const std::vector<int>& parameters, size_t world_size) {
  std::vector<int> order;
  order.reserve(parameters.size());
  for (size_t r = 0; r < world_size; ++r) {
    for (size_t i = r; i < parameters.size(); i += world_size) order.push_back(parameters[i]);
  }
  return order;
}

}  // namespace

LayoutBuilder::LayoutBuilder(const LayoutOptions& options) { layout_.options_ = options; }

absl::StatusOr<Layout> LayoutBuilder::Build(const std::vector<model::UnitSpec>& units) {
  if (layout_.options_.world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("world size is ", layout_.options_.world_size));
  }
  if (units.empty()) return absl::InvalidArgumentError("the model has no unit");
  if (units.back().recomputed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unit ", units.back().name, " is recomputed, but the last of a group of units, which is not, has to follow"));
  }
  for (const model::UnitSpec& unit : units) ZS_RETURN_IF_ERROR(ReadUnit(unit));
  owners_.resize(layout_.parameters_.size());
  DealOut(/*trainable=*/true);
  layout_.trainable_sections_ = static_cast<int>(layout_.sections_.size());
  DealOut(/*trainable=*/false);
  LayOutBuffers();
  layout_.names_.assign(by_name_.begin(), by_name_.end());
  return std::move(layout_);
}

absl::Status LayoutBuilder::ReadUnit(const model::UnitSpec& spec) {
  if (spec.uses < 1) {
    return absl::InvalidArgumentError(absl::StrCat("unit ", spec.name, " has uses = ", spec.uses, "; at least 1"));
  }
  const int unit = static_cast<int>(layout_.units_.size());
  layout_.units_.push_back({.name = spec.name,
                            .backward_reads_parameters = spec.backward_reads_parameters,
                            .uses = spec.uses,
                            .recomputed = spec.recomputed});
  for (const model::ParameterSpec& parameter : spec.parameters) {
    ZS_RETURN_IF_ERROR(parameter.tied_to.empty() ? ReadParameter(parameter, unit) : ReadTied(parameter, unit));
  }
  return absl::OkStatus();
}

absl::Status LayoutBuilder::ReadParameter(const model::ParameterSpec& spec, int unit) {
  ZS_ASSIGN_OR_RETURN(const int64_t elements, CountElements(spec));
  model_elements_ += elements;
  if (model_elements_ > kMaxElements) return absl::InvalidArgumentError("the model has more than 2^56 elements");
  const int index = static_cast<int>(layout_.parameters_.size());
  if (!by_name_.emplace(spec.name, index).second) {
    return absl::InvalidArgumentError(absl::StrCat("two parameters are called ", spec.name));
  }
  layout_.parameters_.push_back({.spec = spec, .elements = elements});
  layout_.units_[unit].parameters.push_back(index);
  users_.push_back({unit});
  tied_.push_back(false);
  return absl::OkStatus();
}

absl::Status LayoutBuilder::ReadTied(const model::ParameterSpec& spec, int unit) {
  const auto target = by_name_.find(spec.tied_to);
  if (target == by_name_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(spec), " is tied to ", spec.tied_to, ", which no earlier parameter is called"));
  }
  const int index = target->second;
  const model::ParameterSpec& first = layout_.parameters_[index].spec;
  if (first.shape != spec.shape || first.trainable != spec.trainable || first.group != spec.group) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(spec), " is tied to ", Describe(first), "; shape, group and trainable have to be equal"));
  }
  if (!by_name_.emplace(spec.name, index).second) {
    return absl::InvalidArgumentError(absl::StrCat("two parameters are called ", spec.name));
  }
  layout_.units_[unit].parameters.push_back(index);
  if (users_[index].back() != unit) users_[index].push_back(unit);
  tied_[index] = true;
  return absl::OkStatus();
}

void LayoutBuilder::DealOut(bool trainable) {
  std::vector<int> dealt;  // parameters, in the model's order
  std::vector<int64_t> sizes;
  for (int p = 0; p < static_cast<int>(layout_.parameters_.size()); ++p) {
    const Parameter& parameter = layout_.parameters_[p];
    if (parameter.spec.trainable != trainable || parameter.elements == 0) continue;
    dealt.push_back(p);
    sizes.push_back(RoundUp(parameter.elements, kAlignmentElements));
  }
  const std::vector<int> owners = AssignOwners(layout_.options_.owner, sizes, layout_.world_size());
  for (size_t i = 0; i < dealt.size(); ++i) owners_[dealt[i]] = owners[i];

  // Units in order; a tied parameter's section comes where its first unit is.
  auto next = dealt.begin();
  for (int u = 0; u < static_cast<int>(layout_.units_.size()); ++u) {
    UnitLayout& unit = layout_.units_[u];
    Section own{.name = unit.name, .trainable = trainable, .units = {u}, .contributions = unit.uses};
    Section persistent = own;
    persistent.persistent = true;
    std::vector<int> shared;
    for (; next != dealt.end() && users_[*next].front() == u; ++next) {
      (tied_[*next] ? shared : IsPersistent(*next) ? persistent.parameters : own.parameters).push_back(*next);
    }
    for (Section* section : {&own, &persistent}) {
      if (section->parameters.empty()) continue;
      unit.sections.insert(unit.sections.begin() + unit.own_sections++, static_cast<int>(layout_.sections_.size()));
      AddSection(std::move(*section));
    }
    for (int p : shared) {
      Section section{.name = layout_.parameters_[p].spec.name,
                      .trainable = trainable,
                      .shared = true,
                      .persistent = IsPersistent(p),
                      .units = users_[p],
                      .parameters = {p},
                      .contributions = 0};
      for (int user : section.units) {
        section.contributions += layout_.units_[user].uses;
        layout_.units_[user].sections.push_back(static_cast<int>(layout_.sections_.size()));
      }
      AddSection(std::move(section));
    }
  }
}

bool LayoutBuilder::IsPersistent(int parameter) const {
  return layout_.parameters_[parameter].elements < layout_.options_.persistence_threshold;
}

void LayoutBuilder::AddSection(Section section) {
  for (int p : section.parameters) layout_.parameters_[p].section = static_cast<int>(layout_.sections_.size());
  if (layout_.options_.partition == Partition::kFlat) {
    PlaceFlat(section);
  } else {
    PlaceByOwner(section);
  }
  layout_.sections_.push_back(std::move(section));
}

void LayoutBuilder::PlaceFlat(Section& section) {
  const int64_t world_size = layout_.world_size();
  if (layout_.options_.round_robin_gradients) section.parameters = RoundRobin(section.parameters, world_size);
  int64_t end = 0;
  for (int p : section.parameters) {
    layout_.parameters_[p].first = end;
    end += RoundUp(layout_.parameters_[p].elements, kAlignmentElements);
  }
  section.elements = RoundUp(end, kAlignmentElements * layout_.ranks());
  for (int64_t r = 0; r <= world_size; ++r) section.bounds.push_back(section.elements / world_size * r);
}

void LayoutBuilder::PlaceByOwner(Section& section) {
  std::stable_sort(section.parameters.begin(), section.parameters.end(),
                   [&](int a, int b) { return owners_[a] < owners_[b]; });
  const int64_t alignment = std::lcm(kAlignmentElements, int64_t{layout_.options_.replicas});
  int64_t end = 0;
  auto next = section.parameters.begin();
  for (int r = 0; r < layout_.world_size(); ++r) {
    section.bounds.push_back(end);
    for (; next != section.parameters.end() && owners_[*next] == r; ++next) {
      layout_.parameters_[*next].first = end;
      end += RoundUp(layout_.parameters_[*next].elements, alignment);
    }
  }
  section.bounds.push_back(end);
  section.elements = RoundUp(end, kAlignmentElements * layout_.ranks());
}

void LayoutBuilder::LayOutBuffers() {
  const int world_size = layout_.world_size();
  std::vector<int64_t> owned(world_size);
  for (int s = 0; s < static_cast<int>(layout_.sections_.size()); ++s) {
    Section& section = layout_.sections_[s];
    if (s == layout_.trainable_sections_) {
      layout_.trainable_elements_ = layout_.total_elements_;
      layout_.owned_trainable_ = owned;
    }
    section.full_first = layout_.total_elements_;
    layout_.total_elements_ += section.elements;
    section.shard_first = owned;
    for (int r = 0; r < world_size; ++r) owned[r] += section.Owned(r).count;
  }
  if (layout_.trainable_sections_ == static_cast<int>(layout_.sections_.size())) {
    layout_.trainable_elements_ = layout_.total_elements_;
    layout_.owned_trainable_ = owned;
  }
  layout_.owned_total_ = std::move(owned);
}

}  // namespace zeroshard::zero
