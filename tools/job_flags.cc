#include "zeroshard/tools/job_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "zeroshard/tools/flags/user_path.h"

namespace zeroshard::tools {
namespace {

constexpr char kGroup[] = "RANKS: who they are and how they meet";

// A store's path is the user's too.
std::string UserStore(const std::string& store) {
  constexpr char kFile[] = "file:";
  if (!absl::StartsWith(store, kFile)) return store;
  return absl::StrCat(kFile, UserPath(store.substr(sizeof kFile - 1)));
}

}  // namespace

void JobFlags::Register(FlagSet& flags) {
  flags.Text("backend", &backend_,
             {.group = kGroup,
              .text = "What carries data between ranks: gloo (processes, TCP), ucx (processes, shared memory on one host),\n"
                     "      in_process (threads of one process).",
              .example = "--backend=in_process"});
  flags.Choice("device", &device_, {"cpu"}, {.group = kGroup, .text = "What computes.", .example = "--device=cpu"},
               {"cuda"});
  flags.Integer("nproc", &nproc_, {.least = 1, .most = 1024},
                {.group = kGroup,
                 .text = "Ranks to start on this machine, where no launcher has.",
                 .example = "--nproc=4",
                 .unit = "ranks"});
  flags.Text("store", &store_,
             {.group = kGroup,
              .text = "Where ranks that another launcher started meet: file:PATH, a path that all of them see.",
              .example = "--store=file:/shared/job7",
              .default_text = "none; ranks of one machine make their own"});
  flags.Integer("threads", &threads_, {.least = 0, .most = 4096},
                {.group = kGroup,
                 .text = "Threads that one rank computes with.",
                 .example = "--threads=1",
                 .default_text = "cores / ranks of this machine"});
  flags.Real("timeout", &timeout_s_, {.least = 0, .most = 1e6, .without_least = true},
             {.group = kGroup,
              .text = "How long connecting, and each operation, may take.",
              .example = "--timeout=60",
              .unit = "seconds"});
}

absl::StatusOr<JobPlan> JobFlags::Plan(const FlagSet& flags, const std::string& name, int argc,
                                       const char* const* argv) const {
  JobOptions options;
  options.backend = backend_;
  if (flags.WasSet("nproc")) options.nproc = static_cast<int>(nproc_);
  options.store = UserStore(store_);
  options.threads = static_cast<int>(threads_);
  options.timeout = absl::Seconds(timeout_s_);
  options.name = name;
  options.arguments.assign(argv + 1, argv + argc);
  return PlanJob(options);
}

}  // namespace zeroshard::tools
