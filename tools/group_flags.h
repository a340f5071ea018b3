// Parameter groups by the pattern of a name: their own learning rate, weight decay, or none of training.
//
//   --group="*.wpe.weight:lr_scale=0.5,decay=0" --group="transformer.h.0.*:frozen"
//
// A rule is PATTERN:SETTING,...; settings are lr=X (its highest rate), lr_scale=X (times --lr), decay=X, frozen. '*' is any run of
// characters, '?' is one. What a rule does not set stays as it is: by default matrices decay by --weight_decay, norms and biases (one
// dimension) do not. Later rules replace what earlier ones set. A tied parameter goes by any of its names.
//
// With Muon the matrices between embedding and head are its own by default, in groups of their own.
//
// Example:
//   GroupFlags groups;
//   groups.Register(flags);
//   ZS_RETURN_IF_ERROR(flags.Parse(argc - 1, argv + 1).status());
//   ZS_RETURN_IF_ERROR(groups.Apply(options.run.engine.optimizer, options.run.model));
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/model/gpt_options.h"
#include "zeroshard/optim/optimizer_options.h"
#include "zeroshard/tools/flags/flag_set.h"

namespace zeroshard::tools {

class GroupFlags {
 public:
  void Register(FlagSet& flags);

  // Adds the groups that the rules make to `optimizer`, whose first two are those by shape, and says in `model` which parameter is in
  // which. Errors: kInvalidArgument: a rule that cannot be read; a pattern that matches nothing, with the nearest parameter.
  absl::Status Apply(optim::OptimizerOptions& optimizer, model::GptOptions& model) const;

 private:
  std::vector<std::string> rules_;
};

}  // namespace zeroshard::tools
