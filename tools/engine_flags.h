// Flags of the ZeRO engine, for every tool that makes one.
//
// Example:
//   EngineFlags engine;
//   engine.Register(flags);
//   ZS_RETURN_IF_ERROR(flags.Parse(argc - 1, argv + 1).status());
//   zero::EngineOptions options = engine.Options();
#pragma once

#include <cstdint>
#include <string>

#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/zero/engine_options.h"

namespace zeroshard::tools {

class EngineFlags {
 public:
  void Register(FlagSet& flags);

  // What they say after flags.Parse; the rest of the options as the engine has them.
  zero::EngineOptions Options() const;

 private:
  void RegisterTraffic(FlagSet& flags);
  void RegisterStage3(FlagSet& flags);
  void RegisterOffload(FlagSet& flags);

  zero::EngineOptions options_;
  int64_t stage_ = options_.stage;
  std::string partition_{zero::Name(options_.partition)};
  std::string owner_{zero::Name(options_.owner)};
  int64_t prefetch_ = options_.prefetch;
  int64_t shard_size_ = options_.shard_size;
  std::string offload_parameters_ = "none", offload_optimizer_ = "none";
  std::string parameters_folder_, optimizer_folder_;
};

}  // namespace zeroshard::tools
