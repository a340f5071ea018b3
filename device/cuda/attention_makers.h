// Who does each attention that a device has planned: cuDNN, or, where it cannot, our kernels, whose bits are others. Goes with the products'
// choices (Device::ProductChoices), as lines behind them, so that a rank on which cuDNN does not work (a library of its own is missing, say)
// does not compute something else than all others.
//
// Example:
//   makers.Note("attention [4, 12, 1024, 64] in bf16", kByCudnn);
//   choices += makers.Text();
//   ZS_ASSIGN_OR_RETURN(const std::string products, makers.Check(text_of_rank_0));
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace zeroshard::device::cuda {

inline constexpr char kByCudnn[] = "cuDNN", kByOurKernels[] = "our kernels";

class AttentionMakers {
 public:
  void Note(const std::string& attention, const std::string& maker) { makers_[attention] = maker; }

  // A line each.
  std::string Text() const;

  // What `text` has beside such lines. Errors: kFailedPrecondition another maker than here does one of those that are planned.
  absl::StatusOr<std::string> Check(std::string_view text) const;

 private:
  std::map<std::string, std::string> makers_;  // by attention
};

}  // namespace zeroshard::device::cuda
