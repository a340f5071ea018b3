#include "zeroshard/model/safetensors.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::model {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kLengthBytes = 8;
// The format's own limit.
constexpr uint64_t kMostHeaderBytes = 100'000'000;

int64_t ElementBytes(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

absl::StatusOr<int64_t> FileBytes(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error) return static_cast<int64_t>(bytes);
  const std::string message = absl::StrCat(path, ": ", error.message());
  return error == std::errc::no_such_file_or_directory ? absl::NotFoundError(message) : absl::DataLossError(message);
}

absl::Status ReadBytes(const std::string& path, int64_t first, int64_t bytes, char* to) {
  std::ifstream file(path, std::ios::binary);
  if (file.seekg(first) && file.read(to, bytes)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": cannot read ", bytes, " bytes at ", first));
}

// A whole number that is not negative.
std::optional<int64_t> Count(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

// The product of the sizes, or -1 where it leaves 59 bits.
int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(product, size, &product)) return -1;
  }
  return product < (int64_t{1} << 59) ? product : -1;
}

// An entry of the header, or what is wrong with it.
absl::StatusOr<Safetensors::Tensor> ParseTensor(const json& entry, int64_t data_start, int64_t data_bytes) {
  const auto bad = [](std::string_view what) { return absl::DataLossError(std::string(what)); };
  if (!entry.is_object()) return bad("is no object");
  const auto dtype = entry.find("dtype"), shape = entry.find("shape"), offsets = entry.find("data_offsets");
  if (dtype == entry.end() || !dtype->is_string()) return bad("has no dtype");
  if (shape == entry.end() || !shape->is_array()) return bad("has no shape");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) return bad("has no data_offsets");
  Safetensors::Tensor tensor{.dtype = dtype->get<std::string>(), .shape = {}};
  for (const json& size : *shape) {
    const std::optional<int64_t> count = Count(size);
    if (!count) return bad("has a size that is no count");
    tensor.shape.push_back(*count);
  }
  const std::optional<int64_t> begin = Count((*offsets)[0]), end = Count((*offsets)[1]);
  const int64_t elements = Product(tensor.shape);
  if (!begin || !end || *begin > *end || *end > data_bytes) {
    return bad(absl::StrCat("lies outside the file's ", data_bytes, " bytes of data"));
  }
  const int64_t element_bytes = ElementBytes(tensor.dtype);
  if (element_bytes == 0) return bad(absl::StrCat("has an unknown dtype '", tensor.dtype, "'"));
  if (elements < 0 || elements * element_bytes != *end - *begin) {
    return bad(absl::StrCat("has ", *end - *begin, " bytes, which do not fit its shape"));
  }
  tensor.first_byte = data_start + *begin;
  tensor.bytes = *end - *begin;
  return tensor;
}

}  // namespace

absl::StatusOr<Safetensors> Safetensors::Open(const std::string& path) {
  ZS_ASSIGN_OR_RETURN(const int64_t file_bytes, FileBytes(path));
  if (file_bytes < kLengthBytes)
    return absl::DataLossError(absl::StrCat(path, ": ", file_bytes, " bytes are no safetensors file"));
  uint64_t header_bytes = 0;
  ZS_RETURN_IF_ERROR(ReadBytes(path, 0, kLengthBytes, reinterpret_cast<char*>(&header_bytes)));
  if (header_bytes > kMostHeaderBytes || static_cast<int64_t>(header_bytes) > file_bytes - kLengthBytes) {
    return absl::DataLossError(absl::StrCat(path, ": a header of ", header_bytes, " bytes in a file of ", file_bytes));
  }
  std::string text(header_bytes, '\0');
  ZS_RETURN_IF_ERROR(ReadBytes(path, kLengthBytes, static_cast<int64_t>(header_bytes), text.data()));
  const json header = json::parse(text, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return absl::DataLossError(absl::StrCat(path, ": the header is no JSON object"));
  const int64_t data_start = kLengthBytes + static_cast<int64_t>(header_bytes);
  Safetensors file;
  file.path_ = path;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<Tensor> tensor = ParseTensor(entry, data_start, file_bytes - data_start);
    if (!tensor.ok()) return absl::DataLossError(absl::StrCat(path, ": tensor '", name, "' ", tensor.status().message()));
    file.tensors_.emplace(name, *std::move(tensor));
  }
  return file;
}

const Safetensors::Tensor* Safetensors::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

absl::Status Safetensors::Read(std::string_view name, std::span<float> values) const {
  const std::string label = absl::StrCat(path_, ": tensor '", std::string(name), "'");
  const Tensor* tensor = Find(name);
  if (tensor == nullptr) return absl::NotFoundError(absl::StrCat(label, " is not there"));
  if (tensor->dtype != "F32")
    return absl::UnimplementedError(absl::StrCat(label, " is ", tensor->dtype, ": only F32 is read"));
  if (tensor->elements() != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(absl::StrCat(label, " has ", tensor->elements(), " elements, not ", values.size()));
  }
  if (values.empty()) return absl::OkStatus();
  return ReadBytes(path_, tensor->first_byte, tensor->bytes, reinterpret_cast<char*>(values.data()));
}

}  // namespace zeroshard::model
