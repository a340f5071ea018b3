// Engine's freezing and unfreezing of parameters, and its search for gradients that were not finite.

#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/text_hash.h"
#include "zeroshard/zero/engine_parts.h"

namespace zeroshard::zero {
namespace {

// Whether a name is what the pattern says; '*' stands for any characters, or none, '?' for one.
bool Matches(std::string_view pattern, std::string_view name) {
  size_t star = std::string_view::npos;
  size_t resume = 0;  // where in the name the last star's match ends
  size_t p = 0;
  size_t n = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == name[n] || pattern[p] == '?')) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// In 52 bits.
int64_t Hash(std::string_view text, bool frozen) {
  const uint64_t hash = device::TextHash(text, frozen ? device::kTextHashBasis : 0x84222325cbf29ce4u);
  return static_cast<int64_t>((hash ^ (hash >> 52)) & ((uint64_t{1} << 52) - 1));
}

}  // namespace

// A tied parameter has several names.
bool Engine::Parts::IsNamed(size_t parameter, std::string_view pattern) const {
  return Matches(pattern, layout.parameters()[parameter].spec.name) || layout.Find(pattern) == static_cast<int>(parameter);
}

absl::Status Engine::Parts::CheckFreeze(std::string_view pattern, bool to_frozen) const {
  if (gradients->Started() || gradients->finished()) {
    return absl::FailedPreconditionError(absl::StrCat("SetFrozen(", std::string(pattern),
                                                      ") in the middle of a step; call it between Step and the next unit"));
  }
  bool any = false;
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    if (!IsNamed(i, pattern)) continue;
    any = true;
    if (to_frozen || parameter.spec.trainable) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        parameter.spec.name, " cannot be unfrozen: it was declared frozen for good (trainable = false) and has no ",
        "optimizer state; declare it trainable and frozen"));
  }
  if (any) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no parameter is called ", std::string(pattern)));
}

void Engine::Parts::Freeze(int parameter, bool to_frozen) {
  frozen[parameter] = to_frozen;
  gradients->SetFrozen(parameter, to_frozen);
  step_end->update().SetFrozen(parameter, to_frozen);
}

absl::Status Engine::SetFrozen(std::string_view pattern, bool frozen) {
  Parts& p = *parts_;
  ZS_RETURN_IF_ERROR(p.communicator->status());
  ZS_ASSIGN_OR_RETURN(const bool same, p.minimum->AllGive(Hash(pattern, frozen)));
  if (!same) {
    return absl::FailedPreconditionError(absl::StrCat("ranks call SetFrozen for different parameters; rank ",
                                                      p.communicator->rank(), " ", frozen ? "freezes " : "unfreezes ",
                                                      std::string(pattern)));
  }
  ZS_RETURN_IF_ERROR(p.CheckFreeze(pattern, frozen));
  p.compute->Synchronize();  // no update is under way
  for (size_t i = 0; i < p.layout.parameters().size(); ++i) {
    if (p.layout.parameters()[i].spec.trainable && p.IsNamed(i, pattern)) p.Freeze(static_cast<int>(i), frozen);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Engine::IsFrozen(std::string_view name) const {
  const std::optional<int> found = parts_->layout.Find(name);
  if (!found) return absl::NotFoundError(absl::StrCat("no parameter is called ", std::string(name)));
  return !parts_->layout.parameters()[*found].spec.trainable || parts_->frozen[*found];
}

absl::StatusOr<std::optional<NonFiniteGradient>> Engine::FindNonFinite() {
  Parts& p = *parts_;
  ZS_RETURN_IF_ERROR(p.communicator->status());
  if (p.gradients->Started() || p.gradients->finished()) {
    return absl::FailedPreconditionError("FindNonFinite after the next step began; call it after Result");
  }
  return p.gradients->FindNonFinite(*p.minimum);
}

void Engine::WatchGradients(bool on) { parts_->gradients->WatchGradients(on); }

}  // namespace zeroshard::zero
