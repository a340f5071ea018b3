// Flags of activation checkpointing.
//
// Example:
//   ActivationFlags activations;
//   activations.Register(flags);
//   ZS_RETURN_IF_ERROR(flags.Parse(argc - 1, argv + 1).status());
//   activations.Apply(options.model);
#pragma once

#include <cstdint>

#include "zeroshard/model/gpt_options.h"
#include "zeroshard/tools/flags/flag_set.h"

namespace zeroshard::tools {

class ActivationFlags {
 public:
  void Register(FlagSet& flags);

  // Writes what they say after flags.Parse; ValidateGptOptions checks it.
  void Apply(model::GptOptions& model) const;

 private:
  int64_t every_ = 0;
  bool on_host_ = false;
};

}  // namespace zeroshard::tools
