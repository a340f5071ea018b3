#include "zeroshard/zero/unit_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace zeroshard::zero {

UnitOrder::UnitOrder(std::vector<int> uses, const std::vector<bool>& recomputed) : uses_(std::move(uses)) {
  // A backward pass may run each use forward again.
  const auto longest = static_cast<size_t>(2 * std::accumulate(uses_.begin(), uses_.end(), 0));
  ran_.reserve(longest);
  for (std::vector<UnitPass>& expected : expected_) expected.reserve(longest);
  for (std::vector<int>& times : times_) times.resize(uses_.size());
  for (const UnitPass at : model::TrainingPasses(recomputed)) expected_[Direction(at)].push_back(at);
}

void UnitOrder::Visit(UnitPass at) {
  if (Direction(at) != direction_ || times(at) == uses_[at.unit]) EndPass();
  direction_ = Direction(at);
  ran_.push_back(at);
  ++times(at);
  const std::vector<UnitPass>& expected = expected_[direction_];
  auto found = std::find(expected.begin() + static_cast<std::ptrdiff_t>(position_), expected.end(), at);
  if (found == expected.end()) found = std::find(expected.begin(), expected.end(), at);
  position_ = static_cast<size_t>(found - expected.begin()) + (found != expected.end());
}

void UnitOrder::EndPass() {
  if (!ran_.empty()) expected_[direction_].assign(ran_.begin(), ran_.end());
  ForgetPass();
}

void UnitOrder::ForgetPass() {
  ran_.clear();
  for (std::vector<int>& times : times_) std::fill(times.begin(), times.end(), 0);
  position_ = 0;
}

std::span<const UnitPass> UnitOrder::Ahead() const {
  if (ran_.empty()) return {};
  return std::span(expected_[direction_]).subspan(position_);
}

}  // namespace zeroshard::zero
