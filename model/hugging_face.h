// Parameters from Hugging Face's GPT-2 files: the same names; linear layers of a block (Conv1D there) lie transposed, [in, out].
//
// Example:
//   ZS_ASSIGN_OR_RETURN(Safetensors file, Safetensors::Open(path));
//   for (const ParameterSpec& parameter : unit.parameters) {
//     if (!parameter.tied_to.empty()) continue;
//     std::vector<float> values(Elements(parameter));
//     ZS_RETURN_IF_ERROR(ReadHuggingFace(file, parameter, values));
//   }
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "zeroshard/model/safetensors.h"
#include "zeroshard/model/unit.h"

namespace zeroshard::model {

// Whether Hugging Face stores the parameter of that name as the transpose of ours.
bool StoredTransposed(std::string_view name);

// Reads a parameter in our layout. Its name may lack "transformer." in the file, as in the published GPT-2's.
// Errors: kNotFound if it is not there; kInvalidArgument for another shape, or if values has another size; those of
// Safetensors::Read.
absl::Status ReadHuggingFace(const Safetensors& file, const ParameterSpec& parameter, std::span<float> values);

}  // namespace zeroshard::model
