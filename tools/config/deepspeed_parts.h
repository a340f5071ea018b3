// DeepSpeed's "scheduler" and "optimizer", as the flags that they come to. Internal to deepspeed_config.cc.
//
// Example:
//   ZS_RETURN_IF_ERROR(ApplyDeepSpeedScheduler(source, notes));
//   ZS_RETURN_IF_ERROR(ApplyDeepSpeedOptimizer(source, notes));
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/tools/config/deepspeed_source.h"

namespace zeroshard::tools {

// Before the optimizer: a scheduler's own rate replaces the optimizer's.
absl::Status ApplyDeepSpeedScheduler(DeepSpeedSource& source, std::vector<std::string>& notes);
absl::Status ApplyDeepSpeedOptimizer(DeepSpeedSource& source, std::vector<std::string>& notes);

}  // namespace zeroshard::tools
