// Whether a process of a tool's dumps core: its own by how it ended, and those of its children by the files that they leave.
//
// Example:
//   const CoreWatch watch;                       // from now on this process's children may
//   const ToolResult result = RunTool("tools/train", {"--backend=nccl"});
//   EXPECT_EQ(watch.Dumps(result), "");
#pragma once

#include <sys/resource.h>

#include <filesystem>
#include <string>

#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {

class CoreWatch {
 public:
  CoreWatch() {
    rlimit limit = {};
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
  }

  // Whether this machine lets a process leave a file, here, which is where children run.
  static bool LeavesFiles() {
    rlimit limit = {};
    getrlimit(RLIMIT_CORE, &limit);
    return limit.rlim_cur > 0 && ReadFile("/proc/sys/kernel/core_pattern").starts_with("core");
  }

  // Says which, and removes the files; empty: none.
  static std::string Dumps(const ToolResult& result) {
    std::string dumps = result.dumped_core ? "the process " : "";
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::current_path())) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || !name.starts_with("core")) continue;
      dumps += name + " ";
      std::filesystem::remove(entry.path());
    }
    return dumps;
  }
};

}  // namespace zeroshard::integration_tests
