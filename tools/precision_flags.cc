#include "zeroshard/tools/precision_flags.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::tools {
namespace {

constexpr char kGroup[] = "PRECISION: in which types is computed, kept and sent";

// Below this a static scale would push every fp16 gradient under fp16's smallest number.
constexpr double kSmallestStaticScale = 1e-6;

std::optional<device::DType> DTypeOf(const std::string& name) {
  if (name == "fp32") return device::DType::kFloat32;
  if (name == "bf16") return device::DType::kBfloat16;
  if (name == "fp16") return device::DType::kFloat16;
  return std::nullopt;
}

}  // namespace

void PrecisionFlags::Register(FlagSet& flags) {
  const std::vector<std::string> types = {"fp32", "bf16", "fp16"};
  const std::vector<std::string> or_auto = {"auto", "fp32", "bf16", "fp16"};
  flags.Choice("dtype", &dtype_, types,
               {.group = kGroup,
                .text = "Of parameters and activations; bf16 and fp16 keep fp32 masters.",
                .example = "--dtype=bf16"});
  flags.Choice("gradient_dtype", &gradient_dtype_, or_auto,
               {.group = kGroup,
                .text = "In which gradients are kept and added up. auto: --dtype with --accumulation=1, else fp32.",
                .example = "--gradient_dtype=fp32"});
  flags.Choice("communication_dtype", &communication_dtype_, or_auto,
               {.group = kGroup,
                .text = "In which gradients travel; they are summed in fp32. auto: as they are kept.",
                .example = "--communication_dtype=bf16"});
  RegisterLossScale(flags);
}

void PrecisionFlags::RegisterLossScale(FlagSet& flags) {
  flags.Real("loss_scale", &loss_scale_, {.least = 0},
             {.group = kGroup, .text = "fp16: a static loss scale; 0: a dynamic one.", .example = "--loss_scale=1024"});
  flags.Integer("initial_scale_power", &initial_scale_power_, {.least = 0, .most = 64},
                {.group = kGroup,
                 .text = "fp16: the dynamic scale begins at 2 to this power.",
                 .example = "--initial_scale_power=12"});
  flags.Integer("loss_scale_window", &loss_scale_window_, {.least = 1},
                {.group = kGroup,
                 .text = "fp16: applied steps in a row after which the scale doubles.",
                 .example = "--loss_scale_window=500",
                 .unit = "steps"});
  flags.Integer("hysteresis", &hysteresis_, {.least = 1},
                {.group = kGroup,
                 .text = "fp16: overflows that are borne before the scale halves.",
                 .example = "--hysteresis=1",
                 .unit = "steps"});
  flags.Boolean("consecutive_hysteresis", &consecutive_hysteresis_,
                {.group = kGroup,
                 .text = "fp16: each applied step makes the hysteresis full again.",
                 .example = "--consecutive_hysteresis"});
  flags.Real("min_loss_scale", &min_loss_scale_, {.least = 0, .without_least = true},
             {.group = kGroup, .text = "fp16: the dynamic scale never falls below.", .example = "--min_loss_scale=1"});
}

absl::Status PrecisionFlags::CheckLossScale(const FlagSet& flags) const {
  if (loss_scale_ > 0 && loss_scale_ < kSmallestStaticScale) {
    return absl::InvalidArgumentError(absl::StrCat(flags.Given("loss_scale"), ": gradients times a scale below ",
                                                   kSmallestStaticScale,
                                                   " vanish in fp16; take 1 or more, or 0 for a dynamic scale"));
  }
  if (dtype_ == "fp16") return absl::OkStatus();
  for (const char* name : {"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis",
                           "min_loss_scale"}) {
    if (flags.FromCommandLine(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(flags.Given(name), " is fp16's, but the type is ", dtype_, ": take --dtype=fp16, or leave it out"));
    }
  }
  return absl::OkStatus();
}

absl::Status PrecisionFlags::Apply(const FlagSet& flags, zero::EngineOptions& engine, model::GptOptions& model) const {
  ZS_RETURN_IF_ERROR(CheckLossScale(flags));
  engine.dtype = DTypeOf(dtype_).value_or(engine.dtype);
  engine.gradient_dtype = DTypeOf(gradient_dtype_);
  engine.communication_dtype = DTypeOf(communication_dtype_);
  model.dtype = engine.dtype;
  model.gradient_dtype = engine.gradient_dtype.value_or(engine.accumulation == 1 ? engine.dtype : device::DType::kFloat32);
  if (dtype_ != "fp16") return absl::OkStatus();
  engine.optimizer.loss_scale = {.kind = loss_scale_ > 0 ? device::LossScaleKind::kStatic : device::LossScaleKind::kDynamic,
                                 .value = loss_scale_ > 0 ? loss_scale_ : 1,
                                 .initial_power = static_cast<int>(initial_scale_power_),
                                 .window = loss_scale_window_,
                                 .hysteresis = hysteresis_,
                                 .consecutive_hysteresis = consecutive_hysteresis_,
                                 .minimum = min_loss_scale_};
  return absl::OkStatus();
}

}  // namespace zeroshard::tools
