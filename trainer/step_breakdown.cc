#include "zeroshard/trainer/step_breakdown.h"

#include <algorithm>
#include <cstdio>

namespace zeroshard::trainer {
namespace {

using device::SpanKind;

double* PartOf(StepBreakdown& b, const device::Span& span) {
  switch (span.kind) {
    case SpanKind::kForward:
      return &b.forward_s;
    case SpanKind::kRecompute:
      return &b.recompute_s;
    case SpanKind::kBackward:
      return &b.backward_s;
    case SpanKind::kNorm:
    case SpanKind::kOptimizer:
    case SpanKind::kAccumulate:
      return &b.optimizer_s;
    case SpanKind::kWait:
    case SpanKind::kHostWait: {
      if (span.control) return &b.other_wait_s;
      const std::string_view name = device::View(span.name);
      return name == "all-gather" || name == "broadcast" ? &b.gather_wait_s : &b.reduction_wait_s;
    }
    default:
      return nullptr;
  }
}

}  // namespace

StepBreakdown BreakDown(std::span<const device::Span> spans) {
  StepBreakdown breakdown;
  for (const device::Span& span : spans) {
    double* part = PartOf(breakdown, span);
    const int64_t begun = device::Load(span.begun_ns), ended = device::Load(span.ended_ns);
    if (part != nullptr && begun != 0 && ended > begun) *part += static_cast<double>(ended - begun) * 1e-9;
  }
  return breakdown;
}

size_t FormatBreakdown(const StepBreakdown& b, double step_s, std::span<char> buffer) {
  const double named =
      b.forward_s + b.recompute_s + b.backward_s + b.optimizer_s + b.gather_wait_s + b.reduction_wait_s + b.other_wait_s;
  const int length = std::snprintf(
      buffer.data(), buffer.size(),
      "  forward %.2f ms  recompute %.2f  backward %.2f  optimizer %.2f  waits: gather %.2f, reduction %.2f, other %.2f  "
      "rest %.2f  step %.2f ms",
      1e3 * b.forward_s, 1e3 * b.recompute_s, 1e3 * b.backward_s, 1e3 * b.optimizer_s, 1e3 * b.gather_wait_s,
      1e3 * b.reduction_wait_s, 1e3 * b.other_wait_s, 1e3 * std::max(0.0, step_s - named), 1e3 * step_s);
  return std::min(static_cast<size_t>(length), buffer.size() - 1);
}

}  // namespace zeroshard::trainer
