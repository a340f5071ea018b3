#include <string_view>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/config/deepspeed_parts.h"

namespace zeroshard::tools {
namespace {

using Kind = JsonValue::Kind;

const std::vector<DeepSpeedType>& Schedulers() {
  static const auto* const kTypes = new std::vector<DeepSpeedType>{
      {"WarmupLR",
       {{"warmup_min_lr", "warmup_min_lr"},
        {"warmup_max_lr", "lr"},
        {"warmup_num_steps", "warmup", Kind::kNumber, "1000"},
        {"warmup_type", "warmup_type", Kind::kText}}},
      {"WarmupDecayLR",
       {{"warmup_min_lr", "warmup_min_lr"},
        {"warmup_max_lr", "lr", Kind::kNumber, "0.001"},
        {"warmup_num_steps", "warmup", Kind::kNumber, "1000"},
        {"warmup_type", "warmup_type", Kind::kText},
        {"total_num_steps", "schedule_steps"}}},
      {"WarmupCosineLR",
       {{"warmup_min_ratio", "warmup_min_ratio"},
        {"cos_min_ratio", "cos_min_ratio"},
        {"warmup_num_steps", "warmup", Kind::kNumber, "1000"},
        {"warmup_type", "warmup_type", Kind::kText},
        {"total_num_steps", "schedule_steps"}}},
      {"OneCycle",
       {{"cycle_min_lr", "min_lr"},
        {"cycle_max_lr", "lr"},
        {"cycle_first_step_size", "cycle_first_step_size"},
        {"cycle_second_step_size", "cycle_second_step_size"},
        {"cycle_first_stair_count", "cycle_first_stair_count"},
        {"cycle_second_stair_count", "cycle_second_stair_count"},
        {"decay_step_size", "decay_step_size"},
        {"decay_lr_rate", "decay_lr_rate"},
        {"cycle_momentum", "cycle_momentum", Kind::kBoolean},
        {"cycle_min_mom", "cycle_min_mom"},
        {"cycle_max_mom", "cycle_max_mom"}}},
  };
  return *kTypes;
}

}  // namespace

absl::Status ApplyDeepSpeedScheduler(DeepSpeedSource& source, std::vector<std::string>&) {
  if (source.Find("scheduler") == nullptr) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(const DeepSpeedType* const type, TypeOf(source, "scheduler", Schedulers()));
  ZS_RETURN_IF_ERROR(CheckParameters(source, "scheduler", *type, {}));
  ZS_RETURN_IF_ERROR(source.SetText("schedule", type->name, *source.Find("scheduler.type"), "scheduler.type"));
  for (const char* key : {"cycle_min_lr", "cycle_max_lr"}) {
    const std::string path = absl::StrCat("scheduler.params.", key);
    if (std::string_view(type->name) == "OneCycle" && source.Find(path) == nullptr) {
      return source.Error(*source.Find("scheduler"), path, "is missing; OneCycle has no default for it");
    }
  }
  return SetParameters(source, "scheduler", *type);
}

}  // namespace zeroshard::tools
