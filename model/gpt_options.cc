#include "zeroshard/model/gpt_options.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::model {
namespace {

// Beyond this a product of two sizes could leave 64 bits.
constexpr int64_t kLargestSize = int64_t{1} << 30;

absl::Status CheckSize(std::string_view name, int64_t value) {
  if (value >= 1 && value <= kLargestSize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(name.data(), name.size()), " = ", value, ": must be between 1 and ", kLargestSize));
}

absl::Status CheckDTypes(const GptOptions& options) {
  using device::DType;
  const DType dtype = options.dtype, gradient = options.gradient_dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kBfloat16 && dtype != DType::kFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype = ", std::string(device::Name(dtype)), ": a model computes in fp32, bf16 or fp16"));
  }
  if (gradient == DType::kFloat32 || gradient == dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gradient_dtype = ", std::string(device::Name(gradient)),
                                                 ": gradients of a model in ", std::string(device::Name(dtype)),
                                                 " are of that or fp32"));
}

// The divisor of `width` nearest to `heads`; the smaller of two.
int64_t NearestDivisor(int64_t width, int64_t heads) {
  for (int64_t away = 0; away < width; ++away) {
    if (heads - away >= 1 && width % (heads - away) == 0) return heads - away;
    if (heads + away <= width && width % (heads + away) == 0) return heads + away;
  }
  return 1;
}

ParameterSpec Matrix(std::string name, int64_t out, int64_t in) {
  return {.name = std::move(name), .shape = {out, in}, .group = kDecayGroup};
}
ParameterSpec Vector(std::string name, int64_t elements) {
  return {.name = std::move(name), .shape = {elements}, .group = kNoDecayGroup};
}

UnitSpec Block(int64_t layer, int64_t width) {
  const std::string h = absl::StrCat("transformer.h.", layer, ".");
  return {.name = absl::StrCat("block.", layer),
          .parameters = {Vector(h + "ln_1.weight", width), Vector(h + "ln_1.bias", width),
                         Matrix(h + "attn.c_attn.weight", 3 * width, width), Vector(h + "attn.c_attn.bias", 3 * width),
                         Matrix(h + "attn.c_proj.weight", width, width), Vector(h + "attn.c_proj.bias", width),
                         Vector(h + "ln_2.weight", width), Vector(h + "ln_2.bias", width),
                         Matrix(h + "mlp.c_fc.weight", 4 * width, width), Vector(h + "mlp.c_fc.bias", 4 * width),
                         Matrix(h + "mlp.c_proj.weight", width, 4 * width), Vector(h + "mlp.c_proj.bias", width)}};
}

absl::Status Freeze(const std::string& prefix, std::vector<UnitSpec>& units) {
  bool found = false;
  for (UnitSpec& unit : units) {
    for (ParameterSpec& parameter : unit.parameters) {
      const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
      if (!absl::StartsWith(name, prefix)) continue;
      parameter.trainable = false;
      found = true;
    }
  }
  if (found) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "frozen = '", prefix, "': no parameter's name begins so; names are like 'transformer.h.0.attn.c_attn.weight'"));
}

absl::Status Choose(const ParameterChoice& choice, std::vector<UnitSpec>& units) {
  bool found = false;
  for (UnitSpec& unit : units) {
    for (ParameterSpec& parameter : unit.parameters) {
      if (parameter.name != choice.name && parameter.tied_to != choice.name) continue;
      parameter.group = choice.group;
      parameter.trainable = choice.trainable;
      found = true;
    }
  }
  if (found) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("choices: no parameter is called '", choice.name, "'"));
}

}  // namespace

absl::Status ValidateGptOptions(const GptOptions& options) {
  ZS_RETURN_IF_ERROR(CheckSize("layers", options.layers));
  ZS_RETURN_IF_ERROR(CheckSize("heads", options.heads));
  ZS_RETURN_IF_ERROR(CheckSize("width", options.width));
  ZS_RETURN_IF_ERROR(CheckSize("context", options.context));
  ZS_RETURN_IF_ERROR(CheckSize("vocab", options.vocab));
  ZS_RETURN_IF_ERROR(CheckSize("batch", options.batch));
  if (options.width % options.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("heads = ", options.heads, " does not divide width = ", options.width,
                     ": the nearest that does is heads = ", NearestDivisor(options.width, options.heads)));
  }
  ZS_RETURN_IF_ERROR(CheckDTypes(options));
  if (options.checkpoint_every < 0) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint_every = ", options.checkpoint_every,
                                                   ": must be 0 (no activation checkpointing), or a number of blocks"));
  }
  if (options.checkpoints_on_host && options.checkpoint_every == 0) {
    return absl::InvalidArgumentError(
        "checkpoints_on_host without activation checkpointing: take checkpoint_every = 1 or more");
  }
  if (options.batch * options.context > kLargestSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch = ", options.batch, " rows of context = ", options.context, " tokens are more than ", kLargestSize,
        " tokens: take batch = ", std::max<int64_t>(1, kLargestSize / options.context), " or less"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UnitSpec>> GptUnits(const GptOptions& options) {
  ZS_RETURN_IF_ERROR(ValidateGptOptions(options));
  const std::string wte = "transformer.wte.weight";
  std::vector<UnitSpec> units;
  units.push_back({.name = "embedding",
                   .parameters = {Matrix(wte, options.vocab, options.width),
                                  Matrix("transformer.wpe.weight", options.context, options.width)},
                   .backward_reads_parameters = false});
  const CheckpointGroups groups = GroupsOf(options);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    units.push_back(Block(layer, options.width));
    units.back().recomputed = groups.RunsAgain(layer) && !groups.IsLast(layer);
  }
  ParameterSpec head = Matrix("lm_head.weight", options.vocab, options.width);
  if (options.tied) head.tied_to = wte;
  units.push_back({.name = "head",
                   .parameters = {Vector("transformer.ln_f.weight", options.width),
                                  Vector("transformer.ln_f.bias", options.width), std::move(head)}});
  for (const std::string& prefix : options.frozen) ZS_RETURN_IF_ERROR(Freeze(prefix, units));
  for (const ParameterChoice& choice : options.choices) ZS_RETURN_IF_ERROR(Choose(choice, units));
  return units;
}

int64_t ParameterElements(const std::vector<UnitSpec>& units) {
  int64_t elements = 0;
  for (const UnitSpec& unit : units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.tied_to.empty()) elements += Elements(parameter);
    }
  }
  return elements;
}

}  // namespace zeroshard::model
