// Builds a Layout, step by step: parameters are read and ties resolved, dealt out to sections, placed, and the sections laid out
// in the full and shard buffers. Internal to Layout::Create.
//
// Example:
//   absl::StatusOr<Layout> layout = LayoutBuilder(options).Build(units);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/model/unit.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const LayoutOptions& options);
  absl::StatusOr<Layout> Build(const std::vector<model::UnitSpec>& units);

 private:
  // Fills parameters and units (without sections).
  absl::Status ReadUnit(const model::UnitSpec& spec);
  absl::Status ReadParameter(const model::ParameterSpec& spec, int unit);
  absl::Status ReadTied(const model::ParameterSpec& spec, int unit);

  // Fills sections: of `trainable` or frozen parameters. Parameters of no element get none.
  void DealOut(bool trainable);
  bool IsPersistent(int parameter) const;
  void AddSection(Section section);
  // Gives each parameter of the section its place, and each rank its part.
  void PlaceFlat(Section& section);
  void PlaceByOwner(Section& section);
  void LayOutBuffers();

  Layout layout_;
  std::map<std::string, int, std::less<>> by_name_;
  std::vector<std::vector<int>> users_;  // of each parameter: its units, ascending
  std::vector<bool> tied_;               // of each parameter: whether another one is tied to it
  std::vector<int> owners_;              // of each parameter; Partition::kTensor
  int64_t model_elements_ = 0;
};

}  // namespace zeroshard::zero
