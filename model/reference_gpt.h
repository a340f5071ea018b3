// GPT-2's forward in plain double loops, for tests: the truth that Gpt is held against. Reads like the formulas; stores everything.
//
// Example:
//   ReferenceGpt reference(options, [&](const std::string& name) { return rank.ReadParameter(name); });
//   reference.LossSum(inputs, targets, rows);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "zeroshard/model/gpt_options.h"

namespace zeroshard::model {

class ReferenceGpt {
 public:
  using Values = std::vector<double>;

  // `read` gives each stored parameter by name, in our layout.
  ReferenceGpt(const GptOptions& options, const std::function<std::vector<float>(const std::string&)>& read);

  Values& parameter(const std::string& name) { return parameters_.at(name); }
  // Sum of the losses of targets that are not kNoTarget.
  double LossSum(std::span<const int32_t> inputs, std::span<const int32_t> targets, int64_t rows) const;
  // [vocab], after a position of a row.
  Values Logits(std::span<const int32_t> inputs, int64_t rows, int64_t row, int64_t position) const;

 private:
  const Values& p(const std::string& name) const { return parameters_.at(name); }
  Values Final(std::span<const int32_t> inputs, int64_t rows) const;  // the head's norm, [rows * context, width]
  Values Attention(const Values& qkv, int64_t rows) const;
  Values LogitsOf(const Values& normed, int64_t token) const;

  GptOptions options_;
  std::map<std::string, Values> parameters_;
};

}  // namespace zeroshard::model
