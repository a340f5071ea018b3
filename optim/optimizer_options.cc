#include "zeroshard/optim/optimizer_options.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroshard::optim {

namespace {

constexpr Kind kKinds[] = {Kind::kAdamW, Kind::kAdam, Kind::kMuon, Kind::kSgd};

absl::Status ValidateAdam(const OptimizerOptions& options) {
  const auto check_beta = [](std::string_view field, double beta) {
    if (beta >= 0 && beta < 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(std::string(field), " is ", beta, "; it must be at least 0 and below 1"));
  };
  absl::Status status = check_beta("beta1", options.beta1);
  status.Update(check_beta("beta2", options.beta2));
  if (!status.ok()) return status;
  // The pass works in fp32: below its smallest normal number eps would vanish, and 0 / 0 is near.
  constexpr double kSmallest = std::numeric_limits<float>::min();
  if (!(options.eps >= kSmallest && options.eps <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("eps is ", options.eps, "; it must be at least ", kSmallest, " (fp32's smallest) and at most 1"));
  }
  if (options.kind == Kind::kMuon) return absl::OkStatus();
  if (options.momentum != 0 || options.nesterov) {
    return absl::InvalidArgumentError(absl::StrCat("momentum is ", options.momentum,
                                                   options.nesterov ? " with nesterov" : "", ", but the optimizer is ",
                                                   std::string(Name(options.kind)), "; momentum and nesterov are SGD's, ",
                                                   std::string(Name(options.kind)), " has beta1 for it"));
  }
  return absl::OkStatus();
}

absl::Status ValidateSgd(const OptimizerOptions& options) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("momentum is ", options.momentum, "; it must be at least 0 and below 1"));
  }
  if (options.nesterov && options.momentum == 0) {
    return absl::InvalidArgumentError("nesterov is set and momentum is 0; Nesterov needs a momentum above 0");
  }
  return absl::OkStatus();
}

absl::Status ValidateLossScale(const LossScale& scale) {
  // Smaller ones would take bits from gradients that fp16 has none to spare of.
  constexpr double kSmallest = 1e-6;
  constexpr int kLargestPower = 100;
  if (scale.kind == device::LossScaleKind::kStatic &&
      !(scale.value >= kSmallest && scale.value <= device::kLargestLossScale)) {
    return absl::InvalidArgumentError(absl::StrCat("loss_scale is ", scale.value, "; a static one is at least ", kSmallest,
                                                   " and at most 2^", kLargestPower, ", say 1024, or it is dynamic"));
  }
  if (scale.kind != device::LossScaleKind::kDynamic) return absl::OkStatus();
  if (scale.initial_power < 0 || scale.initial_power > kLargestPower) {
    return absl::InvalidArgumentError(
        absl::StrCat("initial_scale_power is ", scale.initial_power, "; it must be at least 0 and at most ", kLargestPower));
  }
  if (scale.window < 1 || scale.hysteresis < 1) {
    return absl::InvalidArgumentError(absl::StrCat("loss_scale_window is ", scale.window, " and hysteresis ",
                                                   scale.hysteresis, "; both must be at least 1"));
  }
  if (scale.minimum >= kSmallest && scale.minimum <= std::ldexp(1.0, scale.initial_power)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("min_loss_scale is ", scale.minimum, "; it must be at least ", kSmallest,
                                                 " and at most the initial scale, 2^", scale.initial_power));
}

absl::Status ValidateGroup(size_t index, const GroupOptions& group) {
  if (!(std::isfinite(group.weight_decay) && group.weight_decay >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups[", index, "].weight_decay is ", group.weight_decay, "; it must be finite and at least 0"));
  }
  if (!(std::isfinite(group.learning_rate_scale) && group.learning_rate_scale >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("groups[", index, "].learning_rate_scale is ", group.learning_rate_scale,
                                                   "; it must be finite and at least 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const OptimizerOptions& options) {
  absl::Status status = Validate(options.schedule);
  status.Update(ValidateLossScale(options.loss_scale));
  switch (options.kind) {
    case Kind::kAdamW:
    case Kind::kAdam:
      status.Update(ValidateAdam(options));
      break;
    case Kind::kMuon:
      status.Update(ValidateAdam(options));
      status.Update(ValidateSgd(options));
      break;
    case Kind::kSgd:
      status.Update(ValidateSgd(options));
      break;
    default:
      status.Update(absl::InvalidArgumentError(
          absl::StrCat("kind is ", static_cast<int>(options.kind), "; it must be kAdamW, kAdam, kMuon or kSgd")));
  }
  if (options.groups.empty()) {
    status.Update(absl::InvalidArgumentError("groups is empty; an optimizer has at least one parameter group"));
  }
  for (size_t i = 0; i < options.groups.size(); ++i) status.Update(ValidateGroup(i, options.groups[i]));
  return status;
}

device::StepRule MakeStepRule(const OptimizerOptions& options, double gradient_scale, double clip) {
  const bool adam = options.kind != Kind::kSgd;
  return {.schedule = options.schedule,
          .gradient_scale = gradient_scale,
          .clip = clip,
          .beta1 = adam ? options.beta1 : 0,
          .beta2 = adam ? options.beta2 : 0,
          .loss_scale = options.loss_scale};
}

int64_t StateBytesPerElement(const OptimizerOptions& options) {
  constexpr int64_t kMoment = sizeof(float);
  if (options.kind != Kind::kSgd) return 2 * kMoment;
  return options.momentum != 0 ? kMoment : 0;
}

std::string_view Name(Kind kind) {
  switch (kind) {
    case Kind::kAdamW:
      return "adamw";
    case Kind::kAdam:
      return "adam";
    case Kind::kMuon:
      return "muon";
    case Kind::kSgd:
      return "sgd";
  }
  return "unknown";
}

std::optional<Kind> ParseKind(std::string_view name) {
  for (Kind kind : kKinds) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace zeroshard::optim
