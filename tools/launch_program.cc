// Starts a program as the ranks of a job, on this machine or over ssh: --help lists the flags.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/interrupt.h"
#include "zeroshard/tools/launch/rank_processes.h"
#include "zeroshard/tools/launch/remote_command.h"

namespace zeroshard::tools {
namespace {

constexpr char kGroup[] = "RANKS: launch [FLAGS] PROGRAM ARGUMENTS...";

struct LaunchFlags {
  int64_t nproc = 2, port = 0;
  std::string hosts, ssh = "ssh";
};

void Register(FlagSet& flags, LaunchFlags& values) {
  flags.Integer("nproc", &values.nproc, {.least = 1, .most = 1024},
                {.group = kGroup, .text = "Ranks to start on each host.", .example = "--nproc=4", .unit = "ranks"});
  flags.Text(
      "hosts", &values.hosts,
      {.group = kGroup,
       .text = "Where to start them, as ssh takes it; the program and this folder are found there under the same path.",
       .example = "--hosts=node1,node2",
       .default_text = "this machine"});
  flags.Text("ssh", &values.ssh, {.group = kGroup, .text = "The ssh to start them with.", .example = "--ssh=/usr/bin/ssh"});
  flags.Integer("master_port", &values.port, {.least = 0, .most = 65535},
                {.group = kGroup,
                 .text = "MASTER_PORT, on the first of several hosts.",
                 .example = "--master_port=29500",
                 .default_text = "one that is made up"});
}

// How many of the words are this program's own flags: the first that is none is the program to start.
int OwnWords(int argc, const char* const* argv) {
  int words = 1;
  while (words < argc && argv[words][0] == '-' && std::strcmp(argv[words], "--") != 0) {
    const bool apart = std::strchr(argv[words], '=') == nullptr && std::strncmp(argv[words], "--help", 6) != 0;
    words += apart ? 2 : 1;
  }
  return words < argc ? words : argc;
}

absl::StatusOr<RankProcessesOptions> ReadOptions(FlagSet& flags, const LaunchFlags& values, int argc,
                                                 const char* const* argv) {
  int own = OwnWords(argc, argv);
  ZS_RETURN_IF_ERROR(flags.Parse(own - 1, argv + 1).status());
  RankProcessesOptions options{.ranks = static_cast<int>(values.nproc), .name = "launch"};
  if (flags.help_requested()) return options;
  if (own < argc && std::strcmp(argv[own], "--") == 0) ++own;
  if (own >= argc) return absl::InvalidArgumentError("no program to start: launch --nproc=2 PROGRAM ARGUMENTS...");
  options.program = argv[own];
  options.arguments.assign(argv + own + 1, argv + argc);
  options.ssh = values.ssh;
  options.port = static_cast<int>(values.port);
  if (!values.hosts.empty()) {
    ZS_ASSIGN_OR_RETURN(options.hosts, ParseHosts(values.hosts));
  }
  return options;
}

int Main(int argc, char** argv) {
  ExitOnInterrupts();
  LaunchFlags values;
  FlagSet flags("launch",
                "Starts PROGRAM as the ranks of a job, with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR\n"
                "and MASTER_PORT in its environment, shows what each says, and ends all when one fails.");
  Register(flags, values);
  const absl::StatusOr<RankProcessesOptions> options = ReadOptions(flags, values, argc, argv);
  if (!options.ok()) {
    std::cerr << absl::StrCat("error: ", options.status().message(), "\n");
    return ExitCodeOf(options.status(), Phase::kStarting);
  }
  if (flags.help_requested()) {
    std::cout << flags.Help() << std::flush;
    return kExitDone;
  }
  // `bazel run` changes the folder.
  const char* const users_folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (users_folder != nullptr && chdir(users_folder) != 0) {
    std::cerr << absl::StrCat("error: cannot go to the folder ", users_folder, "\n");
    return kExitInput;
  }
  return RunRankProcesses(*options);
}

}  // namespace
}  // namespace zeroshard::tools

int main(int argc, char** argv) { return zeroshard::tools::Main(argc, argv); }
