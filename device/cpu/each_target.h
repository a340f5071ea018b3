// Runs a test body on each instruction set that this machine and these binaries have.
//
// Example:
//   ForEachTarget([&](const char* name) { results.push_back(Compute()); });
#pragma once

#include <cstdint>

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace zeroshard::device {

template <class Body>
void ForEachTarget(Body&& body) {
  const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = supported; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(static_cast<uint32_t>(target)));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace zeroshard::device
