#include "zeroshard/tools/config/batch_arithmetic.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace zeroshard::tools {
namespace {

std::string Ranks(int64_t world_size) { return absl::StrCat(world_size, world_size == 1 ? " rank" : " ranks"); }

std::string Product(int64_t batch, int64_t accumulation, int64_t world_size) {
  return absl::StrCat("micro-batch ", batch, " x accumulation ", accumulation, " x ", Ranks(world_size), " = ",
                      batch * accumulation * world_size);
}

// `train` is no multiple of `unit` = `factors`; the multiple says how many of `unknown` a step has.
absl::Status NoMultiple(const BatchNumber& train, int64_t unit, const std::string& factors, const std::string& unknown) {
  const int64_t below = train.value / unit;
  std::string nearest = below > 0 ? absl::StrCat(below * unit, " (", unknown, " ", below, ") and ") : "";
  return absl::InvalidArgumentError(absl::StrCat(train.given, ": a train batch of ", train.value, " is no multiple of ",
                                                 factors, " = ", unit, "; the nearest that are: ", nearest,
                                                 (below + 1) * unit, " (", unknown, " ", below + 1, ")"));
}

std::optional<BatchNumber> NumberOf(const FlagSet& flags, const char* name) {
  BatchNumber number;
  if (!flags.WasSet(name) || !absl::SimpleAtoi(flags.Value(name), &number.value)) return std::nullopt;
  number.given = flags.Given(name);
  number.from_command_line = flags.FromCommandLine(name);
  return number;
}

// All three are given: which gives way?
absl::StatusOr<BatchPlan> PlanOfThree(const BatchRequest& r, int64_t world_size) {
  BatchPlan plan{.train_batch = r.batch->value * r.accumulation->value * world_size,
                 .batch = r.batch->value,
                 .accumulation = r.accumulation->value};
  if (plan.train_batch == r.train_batch->value) return plan;
  const bool flag_beside_file =
      !r.train_batch->from_command_line && (r.batch->from_command_line || r.accumulation->from_command_line);
  if (!flag_beside_file) {
    return absl::InvalidArgumentError(absl::StrCat(r.train_batch->given, ": a train batch of ", r.train_batch->value,
                                                   " is not ", Product(plan.batch, plan.accumulation, world_size), " (",
                                                   r.batch->given, "; ", r.accumulation->given,
                                                   "): leave one of the three out, or make them agree"));
  }
  plan.note = absl::StrCat(r.train_batch->given, " gives way to ",
                           r.batch->from_command_line ? r.batch->given : r.accumulation->given, ": ",
                           Product(plan.batch, plan.accumulation, world_size), " rows a step");
  return plan;
}

}  // namespace

BatchRequest BatchRequestOf(const FlagSet& flags) {
  BatchRequest request{.train_batch = NumberOf(flags, "train_batch"),
                       .batch = NumberOf(flags, "batch"),
                       .accumulation = NumberOf(flags, "accumulation")};
  if (!absl::SimpleAtoi(flags.Value("batch"), &request.default_batch)) request.default_batch = 1;
  return request;
}

absl::StatusOr<BatchPlan> PlanBatch(const BatchRequest& r, int64_t world_size) {
  if (r.train_batch && r.batch && r.accumulation) return PlanOfThree(r, world_size);
  BatchPlan plan{.batch = r.batch ? r.batch->value : r.default_batch,
                 .accumulation = r.accumulation ? r.accumulation->value : 1};
  if (r.train_batch && r.batch) {
    const int64_t unit = plan.batch * world_size;
    if (r.train_batch->value % unit != 0) {
      return NoMultiple(*r.train_batch, unit, absl::StrCat("micro-batch ", plan.batch, " x ", Ranks(world_size)),
                        "accumulation");
    }
    plan.accumulation = r.train_batch->value / unit;
  } else if (r.train_batch) {
    const int64_t unit = plan.accumulation * world_size;
    if (r.train_batch->value % unit != 0) {
      return NoMultiple(*r.train_batch, unit, absl::StrCat("accumulation ", plan.accumulation, " x ", Ranks(world_size)),
                        "micro-batch");
    }
    plan.batch = r.train_batch->value / unit;
  }
  plan.train_batch = plan.batch * plan.accumulation * world_size;
  return plan;
}

}  // namespace zeroshard::tools
