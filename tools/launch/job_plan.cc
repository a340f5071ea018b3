#include "zeroshard/tools/launch/job_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/launch_environment.h"
#include "zeroshard/comm/store_default.h"
#include "zeroshard/comm/store_spec.h"
#include "zeroshard/comm/usable_cores.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/nearest.h"
#include "zeroshard/tools/launch/meeting.h"
#include "zeroshard/tools/launch/rank_spawner.h"
#include "zeroshard/tools/launch/refusal.h"
#include "zeroshard/tools/launch/visible_gpus.h"

namespace zeroshard::tools {
namespace {

constexpr char kInProcess[] = "in_process";
constexpr char kNccl[] = "nccl";
constexpr char kAuto[] = "auto";
constexpr char kCuda[] = "cuda";

absl::Status CheckBackend(const std::string& backend) {
  const std::vector<std::string> built_in = comm::Backends();
  if (std::find(built_in.begin(), built_in.end(), backend) != built_in.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--backend=", backend, " is not built in; built in: ", absl::StrJoin(built_in, ", "),
      built_in.empty() ? "none" : "; the nearest is --backend=", built_in.empty() ? "" : Nearest(backend, built_in)));
}

// Where a launcher started this process.
absl::Status CheckLaunched(const comm::LaunchEnvironment& launch, const JobOptions& options) {
  const std::string launcher(comm::Name(launch.launcher));
  const int hosts = std::max<int>(1, static_cast<int>(options.hosts.size()));
  if (options.nproc && *options.nproc * hosts != launch.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("--nproc=", *options.nproc, " under ", launcher, ", which has started ",
                                                   launch.world_size, " ranks: leave --nproc out"));
  }
  if (launch.world_size == 1) return absl::OkStatus();
  if (options.backend == kInProcess) {
    return absl::InvalidArgumentError(absl::StrCat("--backend=in_process joins threads of one process, but ", launcher,
                                                   " has started ", launch.world_size, " processes: take --backend=gloo"));
  }
  return absl::OkStatus();
}

int ThreadsOf(const JobOptions& options, int ranks_here, comm::Launcher launcher) {
  if (options.threads > 0) return options.threads;
  // torchrun, and this program, give all ranks the cores that they have themselves.
  const bool binds = launcher != comm::Launcher::kNone && launcher != comm::Launcher::kTorchrun;
  return comm::CoresOfARank(comm::UsableCores(), static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), ranks_here, binds);
}

absl::Status Plain(absl::Status status) {
  if (!status.ok()) status.SetPayload(kPlainPayload, absl::Cord());
  return status;
}

GpuWish WishOf(const JobPlan& plan, int first, int ranks) {
  return {.backend = plan.options.backend,
          .interface = InterfaceOf(plan.options.bind, plan.rank),
          .first = first,
          .ranks = ranks,
          .share = plan.options.share_gpu};
}

// Ranks of each host, where nobody has said. A process that starts ranks opens nothing of CUDA's.
absl::Status TakeDefaultRanks(JobPlan& plan) {
  plan.world_size = kDefaultRanks;
  if (!plan.on_gpus()) return absl::OkStatus();
  absl::StatusOr<VisibleGpus> gpus = LookAtGpusElsewhere(WishOf(plan, /*first=*/0, /*ranks=*/0));
  if (!gpus.ok()) return Plain(gpus.status());
  plan.gpus = *gpus;
  plan.world_size = plan.gpus.count;
  return absl::OkStatus();
}

// Whether each rank of this machine will have a GPU, and can work on it. Ranks on other hosts look for themselves.
absl::Status CheckGpus(JobPlan& plan) {
  if (!plan.on_gpus() || !plan.options.hosts.empty()) return absl::OkStatus();
  const bool elsewhere = plan.kind == JobPlan::Kind::kProcesses;
  if (elsewhere && plan.gpus.count > 0) return absl::OkStatus();
  const bool one_rank = plan.kind == JobPlan::Kind::kOneRank;
  const GpuWish wish =
      one_rank ? WishOf(plan, plan.launch.local_rank.value_or(0), /*ranks=*/1) : WishOf(plan, /*first=*/0, plan.world_size);
  ZS_ASSIGN_OR_RETURN(plan.gpus, elsewhere ? LookAtGpusElsewhere(wish) : LookAtGpus(wish));
  const int gpus = plan.gpus.count;
  if (!plan.options.share_gpu && !one_rank && plan.world_size > gpus) {
    return absl::FailedPreconditionError(absl::StrCat("too few GPUs: ", plan.world_size, " ranks, ", gpus,
                                                      " visible; take --nproc=", gpus,
                                                      ", or --share_gpu to have ranks share one"));
  }
  return elsewhere ? absl::OkStatus() : CheckBackend(plan.options.backend);
}

absl::StatusOr<JobPlan> PlanRanks(const JobOptions& options) {
  if (options.backend != kNccl) ZS_RETURN_IF_ERROR(CheckBackend(options.backend));
  if (!options.store.empty()) ZS_RETURN_IF_ERROR(comm::ParseStoreSpec(options.store).status());
  ZS_ASSIGN_OR_RETURN(const comm::LaunchEnvironment launch, comm::ReadLaunchEnvironment(comm::ProcessEnvironment));
  JobPlan plan;
  plan.options = options;
  if (options.device == kAuto) plan.options.device = options.backend == kNccl ? kCuda : "cpu";
  if (launch.launched()) {
    ZS_RETURN_IF_ERROR(CheckLaunched(launch, options));
    plan.launch = launch;
    if (launch.world_size > 1 && options.store.empty()) {
      ZS_ASSIGN_OR_RETURN(plan.options.store, comm::DefaultStore(launch, getppid(), options.ports));
    }
    plan.rank = launch.rank;
    plan.world_size = launch.world_size;
    plan.threads = ThreadsOf(options, launch.local_world_size.value_or(launch.world_size), launch.launcher);
    plan.relayed = std::getenv(kRelayVariable) != nullptr;
    return plan;
  }
  if (options.nproc) {
    plan.world_size = *options.nproc;
  } else {
    ZS_RETURN_IF_ERROR(TakeDefaultRanks(plan));
  }
  plan.threads = ThreadsOf(options, plan.world_size, comm::Launcher::kNone);
  if (!options.hosts.empty()) {
    if (options.backend == kInProcess) {
      return absl::InvalidArgumentError(
          "--backend=in_process joins threads of one process: with --hosts take --backend=gloo");
    }
    plan.world_size *= static_cast<int>(options.hosts.size());
    plan.kind = JobPlan::Kind::kProcesses;
    return plan;
  }
  if (plan.world_size > 1) plan.kind = options.backend == kInProcess ? JobPlan::Kind::kThreads : JobPlan::Kind::kProcesses;
  return plan;
}

}  // namespace

absl::StatusOr<JobPlan> PlanJob(const JobOptions& options) {
  if (options.backend == kNccl && options.device != kAuto && options.device != kCuda) {
    return absl::InvalidArgumentError(absl::StrCat("--backend=nccl joins GPUs: leave out --device=", options.device));
  }
  ZS_ASSIGN_OR_RETURN(JobPlan plan, PlanRanks(options));
  ZS_RETURN_IF_ERROR(Plain(CheckGpus(plan)));
  return plan;
}

}  // namespace zeroshard::tools
