#include "zeroshard/zero/unit_order.h"

namespace zeroshard::zero {
namespace {

bool GoesForward(UnitPass at) { return at.pass == Pass::kForward; }

}  // namespace

UnitOrder::UnitOrder(const std::vector<bool>& recomputed) : ends_forward_(static_cast<int>(recomputed.size()) - 1) {
  for (std::vector<Node>& nodes : nodes_) nodes.resize(recomputed.size());
  UnitPass last;
  for (const UnitPass at : model::TrainingPasses(recomputed)) {
    if (last.unit >= 0 && GoesForward(last) == GoesForward(at)) node(last).next = at;
    last = at;
  }
}

void UnitOrder::Visit(UnitPass at) {
  if (last_.unit >= 0 && (GoesForward(at) != GoesForward(last_) || node(at).seen_in == pass_number_)) EndPass();
  if (last_.unit >= 0) node(last_).next = at;
  last_ = at;
  node(at).seen_in = pass_number_;
}

void UnitOrder::EndPass() {
  if (last_.unit >= 0) {
    node(last_).next = {};
    if (GoesForward(last_)) ends_forward_ = last_.unit;
  }
  last_ = {};
  ++pass_number_;
}

}  // namespace zeroshard::zero
