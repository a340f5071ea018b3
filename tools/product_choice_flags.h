// The flags of tools:train that keep the algorithms of products, and take kept ones.
//
// Example:
//   ProductChoiceFlags choices;
//   choices.Register(set);
//   ...
//   ZS_RETURN_IF_ERROR(choices.Fill(plan, save_config, options));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/launch/job_plan.h"
#include "zeroshard/trainer/train_options.h"

namespace zeroshard::tools {

class ProductChoiceFlags {
 public:
  // This outlives the set's parsing.
  void Register(FlagSet& set);

  // Reads --product_choices where this process is rank 0 or starts it, and says where choices are kept: beside `save_config`, the
  // user's path or empty, where nothing else was said.
  // Errors: kInvalidArgument for a device that has no choice; those of ReadProductChoices; the system's for a path that cannot be written.
  absl::Status Fill(const JobPlan& plan, const std::string& save_config, trainer::TrainOptions& options) const;

 private:
  std::string product_choices_, save_product_choices_;
};

}  // namespace zeroshard::tools
