#include "zeroshard/tools/config/deepspeed_parts.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

using Kind = JsonValue::Kind;

// A parameter of a scheduler or optimizer, and the flag that it sets.
struct Parameter {
  const char* key;
  const char* flag;
  Kind kind = Kind::kNumber;
  const char* absent = nullptr;  // DeepSpeed's default, where it is not the flag's
};

struct Type {
  const char* name;  // as files write it
  std::vector<Parameter> parameters;
};

const std::vector<Type>& Schedulers() {
  static const auto* const kTypes = new std::vector<Type>{
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

const std::vector<Type>& Optimizers() {
  static const auto* const kTypes = [] {
    const std::vector<Parameter> adam = {{"eps", "eps", Kind::kNumber, "1e-8"},
                                         {"weight_decay", "weight_decay", Kind::kNumber, "0"}};
    return new std::vector<Type>{{"Adam", adam},
                                 {"AdamW", adam},
                                 {"SGD",
                                  {{"momentum", "momentum", Kind::kNumber, "0"},
                                   {"nesterov", "nesterov", Kind::kBoolean, "false"},
                                   {"weight_decay", "weight_decay", Kind::kNumber, "0"}}}};
  }();
  return *kTypes;
}

// What DeepSpeed has and this program does not.
constexpr const char* kOtherTypes[] = {"Lamb",   "OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Lion",       "Adagrad",
                                       "MuAdam", "MuAdamW",    "MuSGD",       "Muon",       "LRRangeTest"};

// Errors: kInvalidArgument where there is none, or another.
absl::StatusOr<const Type*> TypeOf(const DeepSpeedSource& source, const std::string& section,
                                   const std::vector<Type>& types) {
  const JsonValue* value = source.Find(section + ".type");
  std::vector<std::string> names;
  for (const Type& type : types) names.emplace_back(type.name);
  if (value == nullptr || value->kind != Kind::kText) {
    return source.Error(*source.Find(section), section + ".type",
                        absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
  }
  for (const Type& type : types) {
    if (absl::AsciiStrToLower(type.name) == absl::AsciiStrToLower(value->text)) return &type;
  }
  for (const char* other : kOtherTypes) {
    if (absl::AsciiStrToLower(other) != absl::AsciiStrToLower(value->text)) continue;
    return source.Error(*value, section + ".type",
                        absl::StrCat("is ", value->text, ", which DeepSpeed has and this program does not; it has ",
                                     absl::StrJoin(names, ", ")));
  }
  return source.Error(*value, section + ".type",
                      absl::StrCat("is ", value->text, ": must be one of ", absl::StrJoin(names, ", "), "; did you mean ",
                                   Nearest(value->text, names), "?"));
}

// Whether some type of optimizer or scheduler has it.
bool IsParameterOfSome(const std::string& key) {
  if (key == "betas" || key == "adam_w_mode") return true;
  for (const std::vector<Type>* types : {&Schedulers(), &Optimizers()}) {
    for (const Type& type : *types) {
      for (const Parameter& parameter : type.parameters) {
        if (key == parameter.key) return true;
      }
    }
  }
  return false;
}

absl::Status CheckParameters(const DeepSpeedSource& source, const std::string& section, const Type& type,
                             const std::vector<std::string>& more) {
  std::vector<std::string> known = more;
  for (const Parameter& parameter : type.parameters) known.emplace_back(parameter.key);
  const JsonValue* parameters = source.Find(section + ".params");
  if (parameters == nullptr) return absl::OkStatus();
  for (const JsonMember& member : parameters->members) {
    if (member.value.kind == Kind::kNull || std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    // What is refused or without effect has been dealt with by its own row of deepspeed_keys.cc.
    if (!IsParameterOfSome(member.key)) continue;
    return source.Error(member.position, absl::StrCat(section, ".params.", member.key),
                        absl::StrCat("is no parameter of ", type.name, ", which has ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::Status SetParameters(DeepSpeedSource& source, const std::string& section, const Type& type) {
  for (const Parameter& parameter : type.parameters) {
    const std::string path = absl::StrCat(section, ".params.", parameter.key);
    const JsonValue* value = source.Find(path);
    if (value != nullptr) {
      ZS_RETURN_IF_ERROR(source.Set(parameter.flag, *value, path, parameter.kind));
    } else if (parameter.absent != nullptr) {
      ZS_RETURN_IF_ERROR(source.SetAbsent(parameter.flag, parameter.absent, path));
    }
  }
  return absl::OkStatus();
}

absl::Status SetBetas(DeepSpeedSource& source) {
  const std::string path = "optimizer.params.betas";
  const JsonValue* betas = source.Find(path);
  if (betas == nullptr) {
    ZS_RETURN_IF_ERROR(source.SetAbsent("beta1", "0.9", path));
    return source.SetAbsent("beta2", "0.999", path);
  }
  if (IsAuto(*betas)) return absl::OkStatus();
  if (betas->kind != Kind::kArray || betas->elements.size() != 2) {
    return source.Error(*betas, path, "must be a list of two numbers, for example [0.9, 0.999]");
  }
  ZS_RETURN_IF_ERROR(source.Set("beta1", betas->elements[0], path + "[0]", Kind::kNumber));
  return source.Set("beta2", betas->elements[1], path + "[1]", Kind::kNumber);
}

// "Adam" is AdamW in DeepSpeed, unless adam_w_mode says no.
absl::Status SetAdam(DeepSpeedSource& source, const Type& type, std::vector<std::string>& notes) {
  ZS_RETURN_IF_ERROR(SetBetas(source));
  const JsonValue* mode = source.Find("optimizer.params.adam_w_mode");
  const bool coupled = mode != nullptr && mode->text == "false" && std::string_view(type.name) == "Adam";
  const JsonValue& at = *source.Find("optimizer.type");
  if (!coupled && std::string_view(type.name) == "Adam" && source.flags().Value("weight_decay") != "0") {
    notes.push_back(
        absl::StrCat(source.document().Place(at.position),
                     ": optimizer Adam decays weights as AdamW does, as in DeepSpeed; \"adam_w_mode\": false adds the "
                     "decay to the gradient"));
  }
  return source.SetText("optimizer", coupled ? "adam" : "adamw", at, "optimizer.type");
}

}  // namespace

const JsonValue* DeepSpeedSource::Find(std::string_view path) const {
  const JsonValue* value = &document_.root();
  while (value != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    value = value->Find(path.substr(0, dot));
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return value == nullptr || value->kind == Kind::kNull ? nullptr : value;
}

absl::Status DeepSpeedSource::Error(TextPosition at, const std::string& path, const std::string& what) const {
  return absl::InvalidArgumentError(absl::StrCat(document_.Place(at), ": ", path, " ", what));
}

absl::Status DeepSpeedSource::Set(std::string_view flag, const JsonValue& value, const std::string& path, Kind kind) {
  if (IsAuto(value)) return absl::OkStatus();
  if (value.kind == kind) return SetText(flag, value.text, value, path);
  const std::string_view given = Describe(value.kind), wanted = Describe(kind);
  return Error(value, path,
               absl::StrCat("is ", std::string(given), value.text.empty() ? "" : ", \"", value.text,
                            value.text.empty() ? "" : "\"", "; it must be ", std::string(wanted)));
}

absl::Status DeepSpeedSource::SetText(std::string_view flag, const std::string& text, const JsonValue& at,
                                      const std::string& path) {
  return flags_.SetFrom(flag, text, document_.Place(at.position), path);
}

absl::Status DeepSpeedSource::SetAbsent(std::string_view flag, const std::string& text, const std::string& path) {
  if (flags_.WasSet(flag) || Find(path) != nullptr) return absl::OkStatus();
  return flags_.SetFrom(flag, text, document_.name(), path + " (absent)");
}

absl::Status ApplyDeepSpeedScheduler(DeepSpeedSource& source, std::vector<std::string>&) {
  if (source.Find("scheduler") == nullptr) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(const Type* const type, TypeOf(source, "scheduler", Schedulers()));
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

absl::Status ApplyDeepSpeedOptimizer(DeepSpeedSource& source, std::vector<std::string>& notes) {
  if (source.Find("optimizer") == nullptr) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(const Type* const type, TypeOf(source, "optimizer", Optimizers()));
  const bool sgd = std::string_view(type->name) == "SGD";
  std::vector<std::string> more = {"lr"};
  if (!sgd) more.insert(more.end(), {"betas", "adam_w_mode"});
  ZS_RETURN_IF_ERROR(CheckParameters(source, "optimizer", *type, more));
  ZS_RETURN_IF_ERROR(SetParameters(source, "optimizer", *type));
  const std::string path = "optimizer.params.lr";
  const JsonValue* lr = source.Find(path);
  if (lr != nullptr && source.flags().WasSet("lr")) {
    if (!source.flags().FromCommandLine("lr") && !IsAuto(*lr) && lr->text != source.flags().Value("lr")) {
      notes.push_back(absl::StrCat(source.document().Place(lr->position), ": ", path,
                                   " gives way to the scheduler's: ", source.flags().Given("lr")));
    }
  } else if (lr != nullptr) {
    ZS_RETURN_IF_ERROR(source.Set("lr", *lr, path, Kind::kNumber));
  }
  ZS_RETURN_IF_ERROR(source.SetAbsent("lr", "0.001", path));
  if (sgd) return source.SetText("optimizer", "sgd", *source.Find("optimizer.type"), "optimizer.type");
  return SetAdam(source, *type, notes);
}

}  // namespace zeroshard::tools
