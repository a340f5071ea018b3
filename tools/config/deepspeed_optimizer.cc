#include <string_view>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/config/deepspeed_parts.h"

namespace zeroshard::tools {
namespace {

using Kind = JsonValue::Kind;

const std::vector<DeepSpeedType>& Optimizers() {
  static const auto* const kTypes = [] {
    const std::vector<DeepSpeedParameter> adam = {{"eps", "eps", Kind::kNumber, "1e-8"},
                                                  {"weight_decay", "weight_decay", Kind::kNumber, "0"}};
    return new std::vector<DeepSpeedType>{{"Adam", adam},
                                          {"AdamW", adam},
                                          {"SGD",
                                           {{"momentum", "momentum", Kind::kNumber, "0"},
                                            {"nesterov", "nesterov", Kind::kBoolean, "false"},
                                            {"weight_decay", "weight_decay", Kind::kNumber, "0"}}},
                                          {"Muon",
                                           {{"momentum", "momentum", Kind::kNumber, "0.95"},
                                            {"eps", "eps", Kind::kNumber, "1e-10"},
                                            {"weight_decay", "weight_decay", Kind::kNumber, "0"}}}};
  }();
  return *kTypes;
}

// What an optimizer has beside its table: turned into flags by a function of its own.
std::vector<std::string> OwnKeysOf(const DeepSpeedType& type) {
  const std::string_view name = type.name;
  if (name == "SGD") return {"lr"};
  if (name == "Muon") return {"lr", "muon_lr", "adam_lr", "betas", "ns_method"};
  return {"lr", "betas", "adam_w_mode"};
}

absl::Status SetBetas(DeepSpeedSource& source, const char* second_absent) {
  const std::string path = "optimizer.params.betas";
  const JsonValue* betas = source.Find(path);
  if (betas == nullptr) {
    ZS_RETURN_IF_ERROR(source.SetAbsent("beta1", "0.9", path));
    return source.SetAbsent("beta2", second_absent, path);
  }
  if (IsAuto(*betas)) return absl::OkStatus();
  if (betas->kind != Kind::kArray || betas->elements.size() != 2) {
    return source.Error(*betas, path, "must be a list of two numbers, for example [0.9, 0.999]");
  }
  ZS_RETURN_IF_ERROR(source.Set("beta1", betas->elements[0], path + "[0]", Kind::kNumber));
  return source.Set("beta2", betas->elements[1], path + "[1]", Kind::kNumber);
}

// A scheduler's own rate stays.
absl::Status SetRate(DeepSpeedSource& source, const std::string& path, std::vector<std::string>& notes) {
  const JsonValue* rate = source.Find(path);
  if (rate == nullptr) return absl::OkStatus();
  if (!source.flags().WasSet("lr")) return source.Set("lr", *rate, path, Kind::kNumber);
  if (!source.flags().FromCommandLine("lr") && !IsAuto(*rate) && rate->text != source.flags().Value("lr")) {
    notes.push_back(absl::StrCat(source.document().Place(rate->position), ": ", path,
                                 " gives way to the scheduler's: ", source.flags().Given("lr")));
  }
  return absl::OkStatus();
}

// A warm-up or cycle has one rate for all parameters; WarmupCosineLR scales each group's own.
bool SchedulerHasOneRate(DeepSpeedSource& source) {
  return source.Find("scheduler") != nullptr && source.flags().Value("schedule") != "WarmupCosineLR";
}

// DeepSpeed's "lr" is both Muon's rate and the one of what AdamW takes; "muon_lr" and "adam_lr" replace it for their parts.
absl::Status SetMuonRates(DeepSpeedSource& source, std::vector<std::string>& notes) {
  const std::string both = "optimizer.params.lr", own = "optimizer.params.muon_lr", adam = "optimizer.params.adam_lr";
  const bool has_own = source.Find(own) != nullptr, has_both = source.Find(both) != nullptr;
  const std::string& of_adam = source.Find(adam) == nullptr && has_own ? both : adam;
  const JsonValue* rate = source.Find(of_adam);
  if (SchedulerHasOneRate(source)) {
    if (rate != nullptr && of_adam == adam) {
      notes.push_back(absl::StrCat(source.document().Place(rate->position), ": ", adam,
                                   " gives way: ", source.flags().Value("schedule"), " has one rate for all parameters"));
    }
  } else if (rate != nullptr) {
    ZS_RETURN_IF_ERROR(source.Set("adam_lr", *rate, of_adam, Kind::kNumber));
  } else if (has_own || (!has_both && !source.flags().FromCommandLine("lr"))) {
    ZS_RETURN_IF_ERROR(source.SetAbsent("adam_lr", "3e-4", adam));
  }
  ZS_RETURN_IF_ERROR(SetRate(source, has_own ? own : both, notes));
  return source.flags().WasSet("lr") ? absl::OkStatus() : source.SetAbsent("lr", "0.02", both);
}

absl::Status SetMuon(DeepSpeedSource& source, std::vector<std::string>& notes) {
  ZS_RETURN_IF_ERROR(SetBetas(source, "0.95"));
  const JsonValue& at = *source.Find("optimizer.type");
  const std::string path = "optimizer.params.ns_method";
  if (const JsonValue* method = source.Find(path); method != nullptr) {
    if (method->text != "gram" && method->text != "standard") {
      return source.Error(*method, path, "must be \"gram\" or \"standard\"");
    }
    notes.push_back(absl::StrCat(source.document().Place(method->position), ": ", path,
                                 " changes nothing here: both ways are the same polynomial, whose products are fp32"));
  }
  if (source.flags().Value("stage") != "0" && !source.flags().WasSet("partition")) {
    notes.push_back(
        absl::StrCat(source.document().Place(at.position), ": optimizer Muon needs matrices whole: partition is tensor"));
    ZS_RETURN_IF_ERROR(source.SetText("partition", "tensor", at, "optimizer.type (Muon)"));
  }
  return source.SetText("optimizer", "muon", at, "optimizer.type");
}

// "Adam" is AdamW in DeepSpeed, unless adam_w_mode says no.
absl::Status SetAdam(DeepSpeedSource& source, const DeepSpeedType& type, std::vector<std::string>& notes) {
  ZS_RETURN_IF_ERROR(SetBetas(source, "0.999"));
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

absl::Status ApplyDeepSpeedOptimizer(DeepSpeedSource& source, std::vector<std::string>& notes) {
  if (source.Find("optimizer") == nullptr) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(const DeepSpeedType* const type, TypeOf(source, "optimizer", Optimizers()));
  ZS_RETURN_IF_ERROR(CheckParameters(source, "optimizer", *type, OwnKeysOf(*type)));
  ZS_RETURN_IF_ERROR(SetParameters(source, "optimizer", *type));
  if (std::string_view(type->name) == "Muon") {
    ZS_RETURN_IF_ERROR(SetMuonRates(source, notes));
    return SetMuon(source, notes);
  }
  const std::string path = "optimizer.params.lr";
  ZS_RETURN_IF_ERROR(SetRate(source, path, notes));
  ZS_RETURN_IF_ERROR(source.SetAbsent("lr", "0.001", path));
  if (std::string_view(type->name) != "SGD") return SetAdam(source, *type, notes);
  return source.SetText("optimizer", "sgd", *source.Find("optimizer.type"), "optimizer.type");
}

}  // namespace zeroshard::tools
