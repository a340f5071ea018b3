#include "zeroshard/model/hugging_face.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::model {
namespace {

constexpr std::string_view kPrefix = "transformer.";

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

}  // namespace

bool StoredTransposed(std::string_view name) {
  return name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") || name.ends_with(".c_fc.weight");
}

absl::Status ReadHuggingFace(const Safetensors& file, const ParameterSpec& parameter, std::span<float> values) {
  std::string_view name = parameter.name;
  if (file.Find(name) == nullptr && name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const Safetensors::Tensor* tensor = file.Find(name);
  if (tensor == nullptr)
    return absl::NotFoundError(absl::StrCat(file.path(), ": tensor '", parameter.name, "' is not there"));
  const bool transposed = StoredTransposed(name) && parameter.shape.size() == 2;
  std::vector<int64_t> shape = parameter.shape;
  if (transposed) std::swap(shape[0], shape[1]);
  if (tensor->shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": tensor '", parameter.name, "' is ",
                                                   ShapeText(tensor->shape), " where the model wants ", ShapeText(shape)));
  }
  if (!transposed) return file.Read(name, values);
  std::vector<float> stored(values.size());
  ZS_RETURN_IF_ERROR(file.Read(name, stored));
  const int64_t out = parameter.shape[0], in = parameter.shape[1];
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) values[o * in + i] = stored[i * out + o];
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::model
