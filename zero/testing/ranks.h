// Ranks as threads of the test: one Device and one Communicator each.
//
// Example:
//   RunOnRanks({.world_size = 3}, [&](comm::Communicator& communicator) {
//     ... what rank communicator.rank() does ...
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"

namespace zeroshard::zero::testing {

// Of a backend that is asked for by its name, where it has scratch on the device.
inline constexpr int64_t kScratchBytes = 1 << 18;

using MakeDevice = std::function<std::unique_ptr<device::Device>()>;

struct RankOptions {
  int world_size = 1;
  backends::InProcessOptions backend = {};  // of the in-process backend
  std::string backend_name = {};            // another one's, by which it is registered
  MakeDevice make_device = nullptr;         // device/cpu by default
};

// Returns when every rank has. A rank that fails should abort its communicator, or the others wait for it.
void RunOnRanks(const RankOptions& options, const std::function<void(comm::Communicator& communicator)>& rank);

}  // namespace zeroshard::zero::testing
