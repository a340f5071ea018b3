// train batch = micro-batch x accumulation x ranks: any two give the third, and what does not fit is said with its arithmetic.
//
// Example: a file says "train_batch_size": 256 and "gradient_accumulation_steps": 4, and two ranks run.
//   ZS_ASSIGN_OR_RETURN(BatchPlan plan, PlanBatch(BatchRequestOf(flags), /*world_size=*/2));
//   plan.batch;   // 32 rows of a micro-batch on one rank
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "zeroshard/tools/flags/flag_set.h"

namespace zeroshard::tools {

// A number that somebody asked for.
struct BatchNumber {
  int64_t value = 0;
  std::string given;  // as its user wrote it, for errors
  bool from_command_line = false;
};

struct BatchRequest {
  std::optional<BatchNumber> train_batch = {};   // rows of a step, all ranks and micro-batches
  std::optional<BatchNumber> batch = {};         // rows of a micro-batch on one rank
  std::optional<BatchNumber> accumulation = {};  // micro-batches of a step
  int64_t default_batch = 1;                     // where nothing tells
};

// Of the flags train_batch, batch and accumulation.
BatchRequest BatchRequestOf(const FlagSet& flags);

struct BatchPlan {
  int64_t train_batch = 0;
  int64_t batch = 0;
  int64_t accumulation = 1;
  std::string note = {};  // where a flag made a file's train batch give way
};

// A file's numbers have to agree; where a flag replaces its micro-batch or accumulation, its train batch gives way.
// Errors: kInvalidArgument, with the arithmetic and the nearest train batches that fit.
absl::StatusOr<BatchPlan> PlanBatch(const BatchRequest& request, int64_t world_size);

}  // namespace zeroshard::tools
