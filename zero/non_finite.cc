#include "zeroshard/zero/non_finite.h"

#include <algorithm>
#include <cmath>

#include "zeroshard/device/device.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/pieces.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::zero {

using device::Array;
using device::DType;

namespace {

// Above every parameter's index and every rank.
constexpr int64_t kNone = int64_t{1} << 50;

}  // namespace

absl::StatusOr<std::unique_ptr<NonFiniteWatch>> NonFiniteWatch::Create(const Layout& layout, const EngineOptions& options,
                                                                       int rank, device::Stream& compute) {
  std::unique_ptr<NonFiniteWatch> watch(new NonFiniteWatch(layout, options, rank, compute));
  ZS_ASSIGN_OR_RETURN(watch->largest_,
                      compute.device().Allocate(Bytes(layout), device::Use::kCommunication, "largest gradients"));
  return watch;
}

NonFiniteWatch::NonFiniteWatch(const Layout& layout, const EngineOptions& options, int rank, device::Stream& compute)
    : layout_(&layout),
      rank_(rank),
      compute_(&compute),
      watches_(options.optimizer.loss_scale.kind != device::LossScaleKind::kDynamic),
      parts_(PartsOf(layout, options.stage, layout.PartOf(rank))),
      frozen_(layout.parameters().size()),
      on_host_(2 * layout.parameters().size()) {}

int64_t NonFiniteWatch::Bytes(const Layout& layout) {
  return 2 * static_cast<int64_t>(layout.parameters().size()) * SizeOf(DType::kFloat32);
}

Array NonFiniteWatch::Own() const {
  return largest_.array(DType::kFloat32).Slice(0, static_cast<int64_t>(layout_->parameters().size()));
}

Array NonFiniteWatch::Reduced() const {
  const auto parameters = static_cast<int64_t>(layout_->parameters().size());
  return largest_.array(DType::kFloat32).Slice(parameters, parameters);
}

void NonFiniteWatch::See(int section, const Array& gradient) {
  if (!watches_) return;
  Forget();
  device::Pieces<int> pieces;
  const auto look = [&] {
    if (!pieces.empty()) compute_->device().step().MaxMagnitude(*compute_, gradient, pieces, Own());
    pieces.Clear();
  };
  for (int p : layout_->sections()[section].parameters) {
    const Range range = layout_->parameters()[p].range();
    if (frozen_[p] || range.count == 0) continue;
    if (pieces.full()) look();
    pieces.Add({.first = range.first, .count = range.count, .of = p});
  }
  look();
}

void NonFiniteWatch::Forget() {
  if (!stale_) return;
  stale_ = false;
  if (watches_) compute_->device().elementwise().Fill(*compute_, Own(), 0);
}

void NonFiniteWatch::SetFrozen(int parameter, bool frozen) { frozen_[parameter] = frozen; }

absl::StatusOr<std::optional<NonFiniteGradient>> NonFiniteWatch::Find(Look look, RankMinimum& minimum) {
  device::Device& device = compute_->device();
  const auto parameters = static_cast<int64_t>(layout_->parameters().size());
  const Array reduced = Reduced();
  if (!reduced.empty()) device.elementwise().Fill(*compute_, reduced, 0);
  int64_t bad_in_host = parameters;
  for (const Part& part : parts_) {
    if (frozen_[part.parameter]) continue;
    const float in_host = look(part, reduced.Slice(part.parameter, 1));
    if (!std::isfinite(in_host)) bad_in_host = std::min<int64_t>(bad_in_host, part.parameter);
  }
  if (!reduced.empty()) device.CopyToHost(*compute_, largest_.array(DType::kFloat32), on_host_.data());
  compute_->Synchronize();
  int64_t bad = 0;
  while (bad < bad_in_host && std::isfinite(on_host_[parameters + bad])) ++bad;
  ZS_ASSIGN_OR_RETURN(bad, minimum.Of(bad < parameters ? bad : kNone));
  if (bad == kNone) return std::nullopt;
  const float own = on_host_[bad];
  const bool mine = watches_ && !std::isfinite(own);
  ZS_ASSIGN_OR_RETURN(const int64_t whose, minimum.Of(mine ? 2 * rank_ + (std::isnan(own) ? 1 : 0) : kNone));
  const Parameter& parameter = layout_->parameters()[bad];
  NonFiniteGradient found{.unit = layout_->units()[layout_->sections()[parameter.section].units.front()].name,
                          .parameter = parameter.spec.name,
                          .watched = watches_};
  if (whose != kNone) {
    found.rank = static_cast<int>(whose / 2);
    found.is_nan = whose % 2 != 0;
  }
  return found;
}

}  // namespace zeroshard::zero
