#include "zeroshard/zero/unit_order.h"

namespace zeroshard::zero {

UnitOrder::UnitOrder(int units) : seen_in_(units), ends_forward_(units - 1) {
  for (int u = 0; u < units; ++u) {
    next_[static_cast<size_t>(Pass::kForward)].push_back(u + 1 < units ? u + 1 : -1);
    next_[static_cast<size_t>(Pass::kBackward)].push_back(u - 1);
  }
}

void UnitOrder::Visit(int unit, Pass pass) {
  if (pass != pass_ || seen_in_[unit] == pass_number_) EndPass();
  if (last_ >= 0) next_[static_cast<size_t>(pass)][last_] = unit;
  pass_ = pass;
  last_ = unit;
  seen_in_[unit] = pass_number_;
}

void UnitOrder::EndPass() {
  if (last_ >= 0) {
    next_[static_cast<size_t>(pass_)][last_] = -1;
    if (pass_ == Pass::kForward) ends_forward_ = last_;
  }
  last_ = -1;
  ++pass_number_;
}

}  // namespace zeroshard::zero
