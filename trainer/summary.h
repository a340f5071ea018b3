// The summary of a run: one JSON object, written at the end by rank 0.
//
// Example:
//   ZS_RETURN_IF_ERROR(WriteSummary("run.json", summary));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/trainer/rank_report.h"

namespace zeroshard::trainer {

struct RunSummary {
  std::string version;
  std::string backend;
  std::string config = {};  // JSON of all settings; empty: left out
  std::string device;
  int stage = 0;
  std::string partition;
  std::string dtype = "fp32";
  int64_t parameters = 0;  // of the model: unpadded, tied ones once
  int64_t steps = 0;       // done
  double first_loss = 0;
  double last_loss = 0;
  double step_s_median = 0;  // without the first two steps, as the next
  double tokens_per_s = 0;
  double mfu = 0;  // of the dense peak of all ranks' devices (ModelFlopsPerToken); 0: nobody says what that is
  std::string bits;
  std::vector<RankReport> ranks;
};

// One line of JSON.
std::string FormatSummary(const RunSummary& summary);

// Errors: the system's, with the path.
absl::Status WriteSummary(const std::string& path, const RunSummary& summary);

}  // namespace zeroshard::trainer
