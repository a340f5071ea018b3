// Which gradient was not finite, and on which rank: what a message about a skipped step names.
//
// Note: What can be known. After the reduction every rank that holds a part of a tensor sees that it is bad; whose fault it is, is
// gone by then, since sums land where the ranks' own gradients were. So each rank keeps, before its gradients leave, the largest
// magnitude of each of its own in the step, one fp32 a parameter (NaN and infinity stay): one more read of the gradients. Where
// that is turned off (as it is at first with a dynamic loss scale, where overflows are ordinary) no rank is named. A tensor
// that is bad though no rank's own was: the sum over ranks overflowed.
//
// Example:
//   watch->See(section, gradient);                                     // as it leaves
//   ZS_ASSIGN_OR_RETURN(auto bad, watch->Find(look, minimum));         // after the step was skipped
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/parts.h"
#include "zeroshard/zero/rank_minimum.h"

namespace zeroshard::zero {

struct NonFiniteGradient {
  std::string unit;       // the first that has the parameter
  std::string parameter;  // the first in the units' order whose gradient was not finite
  int rank = -1;          // the lowest whose own was not; -1: none's was, the sum over ranks overflowed; or it is not known
  bool is_nan = false;    // on that rank: a NaN, or else an infinity
  bool watched = false;   // whether ranks looked at their own
};

class NonFiniteWatch {
 public:
  // `rank`: of all ranks. All references outlive it. Errors: kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<NonFiniteWatch>> Create(const Layout& layout, const EngineOptions& options, int rank,
                                                                device::Stream& compute);
  // Device memory that it takes.
  static int64_t Bytes(const Layout& layout);

  // Queues: this rank's own gradient of a section, whole, is looked at. Padding is not.
  void See(int section, const device::Array& gradient);
  // Whether See looks at anything. Between steps; the same on all ranks.
  void Watch(bool on) { watches_ = on; }
  // See from now on speaks of the next step. What was seen stays until then, or until Forget.
  void BeginStep() { stale_ = true; }
  // Forgets what was seen in an earlier step, if it is not forgotten yet.
  void Forget();
  // A frozen parameter is not looked at.
  void SetFrozen(int parameter, bool frozen);

  // Queues on compute: largest = max(largest, magnitudes of this rank's part of the reduced gradient), as MaxMagnitude; and gives that
  // of what is in host memory, or 0.
  using Look = absl::FunctionRef<float(const Part& part, device::Array largest)>;
  // Collective; waits. Nothing if all is finite.
  absl::StatusOr<std::optional<NonFiniteGradient>> Find(Look look, RankMinimum& minimum);

 private:
  NonFiniteWatch(const Layout& layout, const EngineOptions& options, int rank, device::Stream& compute);
  device::Array Own() const;
  device::Array Reduced() const;

  const Layout* layout_;
  int rank_;
  device::Stream* compute_;
  bool watches_;
  bool stale_ = false;
  std::vector<Part> parts_;
  std::vector<bool> frozen_;    // [parameters]
  device::Buffer largest_;      // [2 * parameters] fp32: of this rank's own gradients, of its part of the reduced ones
  std::vector<float> on_host_;  // the same
};

}  // namespace zeroshard::zero
