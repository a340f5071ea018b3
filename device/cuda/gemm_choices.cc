#include "zeroshard/device/cuda/gemm_choices.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

std::string Hex(const cublasLtMatmulAlgo_t& algorithm) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(algorithm.data), sizeof algorithm.data});
}

bool Same(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::equal(std::begin(a.data), std::end(a.data), std::begin(b.data));
}

absl::Status ParseLine(const std::string& line, GemmChoices::Algorithms& algorithms) {
  const std::vector<std::string> parts = absl::StrSplit(line, '\t');
  cublasLtMatmulAlgo_t algorithm;
  if (parts.size() != 2 || parts[1].size() != 2 * sizeof algorithm.data ||
      !std::all_of(parts[1].begin(), parts[1].end(), absl::ascii_isxdigit)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", line, "\" is no product with its algorithm"));
  }
  const std::string bytes = absl::HexStringToBytes(parts[1]);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(algorithm.data));
  algorithms[parts[0]] = algorithm;
  return absl::OkStatus();
}

}  // namespace

GemmChoice& GemmChoices::Of(const std::string& product) {
  std::lock_guard<std::mutex> lock(mutex_);
  return choices_[product];
}

bool GemmChoices::Has(const std::string& product) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = choices_.find(product);
  return found != choices_.end() && found->second.chosen;
}

std::string GemmChoices::Text() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string text = absl::StrCat(library_, "\n");
  for (const auto& [product, choice] : choices_) absl::StrAppend(&text, product, "\t", Hex(choice.algorithm), "\n");
  return text;
}

absl::StatusOr<GemmChoices::Algorithms> GemmChoices::Read(std::string_view text) const {
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '\n', absl::SkipEmpty());
  if (lines.empty()) return absl::InvalidArgumentError("no choices of products' algorithms");
  if (lines[0] != library_) {
    return absl::FailedPreconditionError(absl::StrCat("products' algorithms were chosen for ", lines[0], ", this rank has ",
                                                      library_, ": the same bits need the same cards and libraries"));
  }
  Algorithms algorithms;
  for (auto line = std::next(lines.begin()); line != lines.end(); ++line) ZS_RETURN_IF_ERROR(ParseLine(*line, algorithms));
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [product, choice] : choices_) {
    if (algorithms.contains(product)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("no algorithm was chosen for the ", product, ": that is of another model, batch or precision"));
  }
  return algorithms;
}

GemmChoices::Algorithms GemmChoices::Changes(const Algorithms& algorithms) const {
  std::lock_guard<std::mutex> lock(mutex_);
  Algorithms changes;
  for (const auto& [product, algorithm] : algorithms) {
    const auto here = choices_.find(product);
    if (here == choices_.end() || !Same(here->second.algorithm, algorithm)) changes[product] = algorithm;
  }
  return changes;
}

void GemmChoices::Take(const Algorithms& algorithms) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [product, algorithm] : algorithms) choices_[product] = {.algorithm = algorithm, .chosen = true};
}

}  // namespace zeroshard::device::cuda
