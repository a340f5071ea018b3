#include "zeroshard/tools/config/deepspeed_config.h"

#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/config/deepspeed_keys.h"
#include "zeroshard/tools/config/deepspeed_parts.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

using Kind = JsonValue::Kind;
using Treatment = DeepSpeedKey::Treatment;

std::string PathOf(std::string_view section, const std::string& key) {
  return section.empty() ? key : absl::StrCat(absl::string_view(section.data(), section.size()), ".", key);
}

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Whether a value asks for nothing: the key's own off, or a section that is not enabled.
bool IsOff(const DeepSpeedKey& key, const JsonValue& value) {
  if (value.kind == Kind::kObject) {
    const JsonValue* enabled = value.Find("enabled");
    return value.members.empty() || (enabled != nullptr && enabled->kind == Kind::kBoolean && !enabled->IsTrue());
  }
  if (value.kind == Kind::kBoolean && key.off.empty()) return !value.IsTrue();
  double given = 0, off = 0;
  if (value.kind == Kind::kNumber && absl::SimpleAtod(value.text, &given) && absl::SimpleAtod(View(key.off), &off)) {
    return given == off;
  }
  return value.text == key.off && (value.kind == Kind::kBoolean || value.kind == Kind::kText);
}

class KeyReader {
 public:
  KeyReader(DeepSpeedSource& source, std::vector<std::string>& notes) : source_(source), notes_(notes) {}

  absl::Status Section(std::string_view section, const JsonValue& object) {
    for (const JsonMember& member : object.members) {
      if (section.empty() && member.key == kOwnSection) continue;
      ZS_RETURN_IF_ERROR(Member(section, member));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Member(std::string_view section, const JsonMember& member) {
    const std::string path = PathOf(section, member.key);
    const DeepSpeedKey* key = FindDeepSpeedKey(path);
    if (key == nullptr) return Unknown(section, member);
    const JsonValue& value = member.value;
    if (value.kind == Kind::kNull) return absl::OkStatus();
    switch (key->treatment) {
      case Treatment::kSection:
        if (value.kind == Kind::kObject) return Section(path, value);
        return source_.Error(value, path, absl::StrCat("is ", View(Describe(value.kind)), "; it must be an object"));
      case Treatment::kRefused:
        if (IsOff(*key, value)) return absl::OkStatus();
        return source_.Error(member.position, path, absl::StrCat("is DeepSpeed's and not honoured here: ", View(key->why)));
      case Treatment::kNoEffect:
        if (!IsOff(*key, value)) {
          notes_.push_back(absl::StrCat(source_.document().Place(member.position), ": ", path,
                                        " changes nothing here: ", View(key->why)));
        }
        return absl::OkStatus();
      case Treatment::kSpecial:
        return absl::OkStatus();
      case Treatment::kInteger:
      case Treatment::kReal:
        return source_.Set(key->flag, value, path, Kind::kNumber);
      case Treatment::kBoolean:
        return source_.Set(key->flag, value, path, Kind::kBoolean);
      case Treatment::kText:
        return source_.Set(key->flag, value, path, Kind::kText);
    }
    return absl::OkStatus();
  }

  absl::Status Unknown(std::string_view section, const JsonMember& member) const {
    std::string hint;
    for (const std::string& other : SectionsWith(member.key)) {
      hint = other.empty() ? "; it belongs outside every section" : absl::StrCat("; it is a key of ", other);
    }
    if (hint.empty()) {
      std::vector<std::string> known = DeepSpeedKeysOf(section);
      if (section.empty()) known.emplace_back(kOwnSection);
      hint = absl::StrCat("; did you mean \"", Nearest(member.key, known), "\"?");
    }
    return source_.Error(member.position, PathOf(section, member.key), absl::StrCat("is no key of DeepSpeed", hint));
  }

  DeepSpeedSource& source_;
  std::vector<std::string>& notes_;
};

// Both sections may be there, one of them may be on.
absl::Status ApplyPrecision(DeepSpeedSource& source) {
  const JsonValue* fp16 = source.Find("fp16.enabled");
  const JsonValue* bf16 = source.Find("bf16.enabled");
  for (const auto& [value, name] : {std::pair(fp16, "fp16.enabled"), std::pair(bf16, "bf16.enabled")}) {
    if (value == nullptr || IsAuto(*value) || value->kind == Kind::kBoolean) continue;
    return source.Error(*value, name,
                        absl::StrCat("is ", View(Describe(value->kind)), "; it must be true, false or \"auto\""));
  }
  const bool half = fp16 != nullptr && fp16->IsTrue();
  const bool brain = bf16 != nullptr && bf16->IsTrue();
  if (half && brain) {
    return source.Error(*bf16, "bf16.enabled",
                        absl::StrCat("is true, and fp16.enabled is too (", source.document().Place(fp16->position),
                                     "): a run computes in one of them; leave the other out"));
  }
  if (half) return source.SetText("dtype", "fp16", *fp16, "fp16.enabled");
  if (brain) return source.SetText("dtype", "bf16", *bf16, "bf16.enabled");
  return absl::OkStatus();
}

absl::Status ApplyDType(DeepSpeedSource& source, std::string_view path, const char* flag) {
  const JsonValue* value = source.Find(path);
  if (value == nullptr || IsAuto(*value)) return absl::OkStatus();
  if (value->kind != Kind::kText) return source.Error(*value, std::string(path), "must be \"fp32\", \"bf16\" or \"fp16\"");
  return source.SetText(flag, absl::AsciiStrToLower(value->text), *value, std::string(path));
}

// As many checkpoints as asked for; in host memory they are wanted even where no number says how many.
absl::Status ApplyCheckpointing(DeepSpeedSource& source) {
  const std::string path = "activation_checkpointing.number_checkpoints";
  const JsonValue* number = source.Find(path);
  const JsonValue* on_host = source.Find("activation_checkpointing.cpu_checkpointing");
  if (number == nullptr || IsAuto(*number)) {
    if (on_host == nullptr || !on_host->IsTrue()) return absl::OkStatus();
    return source.SetText("activation_checkpoint_every", "1", *on_host, "activation_checkpointing.cpu_checkpointing");
  }
  double wanted = 0;
  int64_t layers = 0;
  if (number->kind != Kind::kNumber || !absl::SimpleAtod(number->text, &wanted) || wanted < 1 ||
      wanted != std::floor(wanted)) {
    return source.Error(*number, path, absl::StrCat("is ", number->text, "; it must be a whole number of at least 1"));
  }
  if (!absl::SimpleAtoi(source.flags().Value("layers"), &layers)) layers = 1;
  const auto every = static_cast<int64_t>(std::ceil(static_cast<double>(layers) / wanted));
  return source.SetText("activation_checkpoint_every", absl::StrCat(every), *number, path);
}

// Sizes that Hugging Face's trainer fills from the model's width.
absl::Status ApplyAutoSizes(DeepSpeedSource& source) {
  int64_t width = 0;
  if (!absl::SimpleAtoi(source.flags().Value("width"), &width)) return absl::OkStatus();
  const bool stage3 = source.flags().Value("stage") == "3";
  struct Size {
    const char* key;
    const char* flag;
    int64_t value;
    bool only_stage3;
  };
  const Size sizes[] = {
      {"reduce_bucket_size", "reduce_bucket_size", width * width, false},
      {"stage3_prefetch_bucket_size", "prefetch_bucket_size", width * width * 9 / 10, true},
      {"stage3_param_persistence_threshold", "persistence_threshold", 10 * width, true},
  };
  for (const Size& size : sizes) {
    const std::string path = absl::StrCat("zero_optimization.", size.key);
    const JsonValue* value = source.Find(path);
    if (value == nullptr || !IsAuto(*value) || (size.only_stage3 && !stage3)) continue;
    ZS_RETURN_IF_ERROR(source.SetText(size.flag, absl::StrCat(size.value), *value, path + " (auto)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ApplyDeepSpeedConfig(const JsonDocument& document, FlagSet& flags) {
  std::vector<std::string> notes;
  DeepSpeedSource source(document, flags);
  ZS_RETURN_IF_ERROR(KeyReader(source, notes).Section("", document.root()));
  ZS_RETURN_IF_ERROR(source.SetAbsent("stage", "0", "zero_optimization.stage"));
  ZS_RETURN_IF_ERROR(source.SetAbsent("clip", "0", "gradient_clipping"));
  ZS_RETURN_IF_ERROR(
      source.SetAbsent("overlap", flags.Value("stage") == "3" ? "true" : "false", "zero_optimization.overlap_comm"));
  ZS_RETURN_IF_ERROR(ApplyPrecision(source));
  ZS_RETURN_IF_ERROR(ApplyDType(source, "communication_data_type", "communication_dtype"));
  ZS_RETURN_IF_ERROR(ApplyDType(source, "data_types.grad_accum_dtype", "gradient_dtype"));
  ZS_RETURN_IF_ERROR(ApplyCheckpointing(source));
  ZS_RETURN_IF_ERROR(ApplyAutoSizes(source));
  ZS_RETURN_IF_ERROR(ApplyDeepSpeedScheduler(source, notes));
  ZS_RETURN_IF_ERROR(ApplyDeepSpeedOptimizer(source, notes));
  return notes;
}

}  // namespace zeroshard::tools
