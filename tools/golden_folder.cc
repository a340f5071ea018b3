#include "zeroshard/tools/golden_folder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/input_file.h"
#include "zeroshard/trainer/data/token_file.h"

namespace zeroshard::tools {
namespace {

using Json = nlohmann::json;

absl::StatusOr<Json> ReadJson(const std::string& path) {
  ZS_ASSIGN_OR_RETURN(const trainer::InputFile file, trainer::InputFile::Open(path));
  constexpr int64_t kMostBytes = int64_t{1} << 26;
  if (file.size() > kMostBytes)
    return absl::InvalidArgumentError(absl::StrCat(path, " is no golden run's: ", file.size(), " bytes"));
  std::string text(static_cast<size_t>(file.size()), '\0');
  ZS_RETURN_IF_ERROR(file.Read(0, text.data(), file.size()));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(path, " is not JSON"));
  return json;
}

// Reads entries of one object, and keeps the first that is not as it should be.
class Entries {
 public:
  Entries(const Json& object, std::string place) : object_(object), place_(std::move(place)) {}

  void Get(const char* name, double& to) {
    if (const Json* entry = Find(name, &Json::is_number)) to = entry->get<double>();
  }
  void Get(const char* name, int64_t& to) {
    if (const Json* entry = Find(name, &Json::is_number_integer)) to = entry->get<int64_t>();
  }
  void Get(const char* name, bool& to) {
    if (const Json* entry = Find(name, &Json::is_boolean)) to = entry->get<bool>();
  }
  void Get(const char* name, std::string& to) {
    if (const Json* entry = Find(name, &Json::is_string)) to = entry->get<std::string>();
  }
  void Get(const char* name, std::vector<std::string>& to) {
    const Json* entry = Find(name, &Json::is_array);
    if (entry == nullptr) return;
    for (const Json& one : *entry) {
      if (one.is_string()) to.push_back(one.get<std::string>());
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* name, bool (Json::*is)() const noexcept) {
    const auto entry = object_.is_object() ? object_.find(name) : object_.end();
    const bool there = object_.is_object() && entry != object_.end() && ((*entry).*is)();
    if (!there)
      status_.Update(absl::InvalidArgumentError(absl::StrCat(place_, ": '", name, "' is missing, or of another kind")));
    return there ? &*entry : nullptr;
  }

  const Json& object_;
  std::string place_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<GoldenFolder> GoldenFolder::Open(const std::string& path) {
  ZS_ASSIGN_OR_RETURN(model::Safetensors first, model::Safetensors::Open(path + "/init.safetensors"));
  ZS_ASSIGN_OR_RETURN(model::Safetensors last, model::Safetensors::Open(path + "/final.safetensors"));
  GoldenFolder folder(path, std::move(first), std::move(last));
  ZS_RETURN_IF_ERROR(folder.ReadConfig());
  ZS_RETURN_IF_ERROR(folder.ReadExpected());
  return folder;
}

absl::Status GoldenFolder::ReadConfig() {
  const std::string path = path_ + "/config.json";
  ZS_ASSIGN_OR_RETURN(const Json json, ReadJson(path));
  Entries config(json, path);
  config.Get("layers", model_.layers);
  config.Get("heads", model_.heads);
  config.Get("width", model_.width);
  config.Get("context", model_.context);
  config.Get("vocab", model_.vocab);
  config.Get("tied", model_.tied);
  config.Get("frozen", model_.frozen);
  config.Get("rows", rows_);
  config.Get("accumulation", accumulation_);
  config.Get("clip", clip_);
  config.Get("beta1", optimizer_.beta1);
  config.Get("beta2", optimizer_.beta2);
  config.Get("eps", optimizer_.eps);
  config.Get("momentum", optimizer_.momentum);
  optim::Schedule& schedule = optimizer_.schedule;
  schedule.kind = optim::ScheduleKind::kCosine;
  config.Get("lr", schedule.learning_rate);
  config.Get("warmup", schedule.warmup_steps);
  config.Get("steps", schedule.total_steps);
  schedule.min_learning_rate = schedule.learning_rate / 10;
  double decay = 0;
  config.Get("weight_decay", decay);
  optimizer_.groups = {{.weight_decay = decay}, {.weight_decay = 0}};
  std::string optimizer;
  config.Get("optimizer", optimizer);
  ZS_RETURN_IF_ERROR(config.status());
  const auto kind = optim::ParseKind(optimizer);
  if (!kind)
    return absl::InvalidArgumentError(absl::StrCat(path, ": optimizer '", optimizer, "' is not adamw, adam or sgd"));
  optimizer_.kind = *kind;
  if (rows_ < 1 || accumulation_ < 1 || accumulation_ > (1 << 20)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": rows ", rows_, " and accumulation ", accumulation_, ": both are at least 1"));
  }
  return absl::OkStatus();
}

absl::Status GoldenFolder::ReadExpected() {
  const std::string path = path_ + "/expected.json";
  ZS_ASSIGN_OR_RETURN(const Json json, ReadJson(path));
  if (!json.is_array() || json.size() != static_cast<size_t>(optimizer_.schedule.total_steps)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no list of ", optimizer_.schedule.total_steps, " steps"));
  }
  for (const Json& step : json) {
    Entries entries(step, path);
    GoldenStep& expected = steps_.emplace_back();
    entries.Get("loss", expected.loss);
    entries.Get("grad_norm", expected.gradient_norm);
    ZS_RETURN_IF_ERROR(entries.status());
  }
  return absl::OkStatus();
}

absl::StatusOr<trainer::RunOptions> GoldenFolder::Options(const zero::EngineOptions& engine) const {
  trainer::RunOptions options;
  options.model = model_;
  options.engine = engine;
  options.engine.accumulation = static_cast<int>(accumulation_);
  options.engine.clip = clip_;
  options.engine.optimizer = optimizer_;
  options.rows = rows_;
  options.order = trainer::SampleOrder::Mode::kSequential;
  ZS_RETURN_IF_ERROR(model::ValidateGptOptions(options.model));
  ZS_RETURN_IF_ERROR(zero::Validate(options.engine));
  ZS_ASSIGN_OR_RETURN(options.data,
                      trainer::PrepareData({.path = path_ + "/tokens.bin", .vocab = model_.vocab}, model_.context));
  return options;
}

}  // namespace zeroshard::tools
