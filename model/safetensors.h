// Reads tensors by name from a safetensors file: eight bytes of header length, a header of JSON, then the data.
//
// Open checks the whole header against the file's size, so that a damaged file is refused before anything is read. Not kept open: each
// Read opens the file anew.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Safetensors file, Safetensors::Open("init.safetensors"));
//   std::vector<float> values(file.Find("transformer.wpe.weight")->elements());
//   ZS_RETURN_IF_ERROR(file.Read("transformer.wpe.weight", values));
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::model {

class Safetensors {
 public:
  struct Tensor {
    std::string dtype;  // as the file has it: "F32", "BF16", ...
    std::vector<int64_t> shape;
    int64_t first_byte = 0;  // from the file's start
    int64_t bytes = 0;

    int64_t elements() const {
      int64_t n = 1;
      for (int64_t d : shape) n *= d;
      return n;
    }
  };

  // Errors: kNotFound if there is no such file; kDataLoss if it cannot be read or is not whole, naming the entry.
  static absl::StatusOr<Safetensors> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  // Null if the file has none of that name.
  const Tensor* Find(std::string_view name) const;

  // All elements of an F32 tensor, in row-major order. Errors: kNotFound for a name; kInvalidArgument if values has another size;
  // kUnimplemented for another dtype; kDataLoss if the file cannot be read.
  absl::Status Read(std::string_view name, std::span<float> values) const;

 private:
  std::string path_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace zeroshard::model
