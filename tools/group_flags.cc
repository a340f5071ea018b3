#include "zeroshard/tools/group_flags.h"

#include <cmath>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/glob.h"
#include "zeroshard/tools/flags/nearest.h"

namespace zeroshard::tools {
namespace {

struct Rule {
  std::string pattern;
  std::optional<double> learning_rate_scale;
  std::optional<double> weight_decay;
  bool frozen = false;
};

absl::Status Bad(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--group=", text, ": ", why));
}

absl::Status ReadSetting(const std::string& text, const std::string& setting, double learning_rate, Rule& rule) {
  const std::vector<std::string> parts = absl::StrSplit(setting, absl::MaxSplits('=', 1));
  const std::string& name = parts[0];
  if (name == "frozen" && parts.size() == 1) {
    rule.frozen = true;
    return absl::OkStatus();
  }
  if (name != "lr" && name != "lr_scale" && name != "decay") {
    return Bad(text, absl::StrCat("there is no setting '", name, "'; did you mean '",
                                  Nearest(name, {"lr", "lr_scale", "decay", "frozen"}), "'?"));
  }
  double value = 0;
  if (parts.size() < 2 || !absl::SimpleAtod(parts[1], &value) || !std::isfinite(value) || value < 0) {
    return Bad(text, absl::StrCat(name, " must be a number of at least 0, for example ", name, "=0.1"));
  }
  if (name == "decay") {
    rule.weight_decay = value;
  } else {
    rule.learning_rate_scale = name == "lr" ? value / learning_rate : value;
  }
  return absl::OkStatus();
}

absl::StatusOr<Rule> ReadRule(const std::string& text, double learning_rate) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    return Bad(text, "a rule is PATTERN:SETTING,..., for example \"*.wpe.weight:lr_scale=0.5,decay=0\"");
  }
  Rule rule{.pattern = text.substr(0, colon), .learning_rate_scale = {}, .weight_decay = {}};
  for (const absl::string_view setting : absl::StrSplit(text.substr(colon + 1), ',')) {
    ZS_RETURN_IF_ERROR(ReadSetting(text, std::string(setting), learning_rate, rule));
  }
  return rule;
}

// A parameter's own storage, and all names it goes by.
struct Stored {
  const model::ParameterSpec* spec;
  std::vector<std::string> names;
};

std::vector<Stored> StoredOf(const std::vector<model::UnitSpec>& units) {
  std::vector<Stored> stored;
  for (const model::UnitSpec& unit : units) {
    for (const model::ParameterSpec& parameter : unit.parameters) {
      if (parameter.tied_to.empty()) stored.push_back({&parameter, {parameter.name}});
      for (Stored& other : stored) {
        if (!parameter.tied_to.empty() && other.spec->name == parameter.tied_to) other.names.push_back(parameter.name);
      }
    }
  }
  return stored;
}

bool Matches(const Rule& rule, const Stored& stored) {
  for (const std::string& name : stored.names) {
    if (GlobMatches(rule.pattern, name)) return true;
  }
  return false;
}

absl::Status CheckMatches(const Rule& rule, const std::string& text, const std::vector<Stored>& parameters) {
  std::vector<std::string> names;
  for (const Stored& stored : parameters) {
    if (Matches(rule, stored)) return absl::OkStatus();
    names.insert(names.end(), stored.names.begin(), stored.names.end());
  }
  return Bad(text, absl::StrCat("no parameter's name matches '", rule.pattern, "'; the nearest is '",
                                NearestToGlob(rule.pattern, names), "'; --list_parameters shows all"));
}

// What Muon takes: matrices between the embedding and the head.
bool IsHiddenMatrix(const model::ParameterSpec& spec, const std::vector<model::UnitSpec>& units) {
  if (spec.shape.size() != 2) return false;
  for (const model::UnitSpec* end : {&units.front(), &units.back()}) {
    for (const model::ParameterSpec& other : end->parameters) {
      if (other.name == spec.name) return false;
    }
  }
  return true;
}

int GroupWith(std::vector<optim::GroupOptions>& groups, const optim::GroupOptions& wanted) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].weight_decay == wanted.weight_decay && groups[i].learning_rate_scale == wanted.learning_rate_scale &&
        groups[i].orthogonal == wanted.orthogonal) {
      return static_cast<int>(i);
    }
  }
  groups.push_back(wanted);
  return static_cast<int>(groups.size()) - 1;
}

}  // namespace

void GroupFlags::Register(FlagSet& flags) {
  flags.Texts("group", &rules_,
              {.group = "OPTIMIZER: how weights follow gradients",
               .text = "PATTERN:SETTING,...: parameters whose name matches ('*' any run of characters, '?' one) have\n"
                       "      their own lr=X, lr_scale=X (times --lr), decay=X, or are frozen. May be given several times.",
               .example = "--group=\"*.wpe.weight:lr_scale=0.5,decay=0\""});
}

absl::Status GroupFlags::Apply(optim::OptimizerOptions& optimizer, model::GptOptions& model) const {
  const bool muon = optimizer.kind == optim::Kind::kMuon;
  if (rules_.empty() && !muon) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(const std::vector<model::UnitSpec> units, model::GptUnits(model));
  const std::vector<Stored> parameters = StoredOf(units);
  std::vector<Rule> rules;
  for (const std::string& text : rules_) {
    ZS_ASSIGN_OR_RETURN(rules.emplace_back(), ReadRule(text, optimizer.schedule.learning_rate));
    ZS_RETURN_IF_ERROR(CheckMatches(rules.back(), text, parameters));
  }
  for (const Stored& stored : parameters) {
    model::ParameterChoice choice{
        .name = stored.spec->name, .group = stored.spec->group, .trainable = stored.spec->trainable};
    optim::GroupOptions group = optimizer.groups[static_cast<size_t>(choice.group)];
    bool matched = false;
    if (muon && IsHiddenMatrix(*stored.spec, units)) {
      matched = group.orthogonal = true;
      group.learning_rate_scale = 1;
    }
    for (const Rule& rule : rules) {
      if (!Matches(rule, stored)) continue;
      matched = true;
      group.weight_decay = rule.weight_decay.value_or(group.weight_decay);
      group.learning_rate_scale = rule.learning_rate_scale.value_or(group.learning_rate_scale);
      choice.trainable = choice.trainable && !rule.frozen;
    }
    if (!matched) continue;
    choice.group = GroupWith(optimizer.groups, group);
    model.choices.push_back(choice);
  }
  return optim::Validate(optimizer);
}

}  // namespace zeroshard::tools
