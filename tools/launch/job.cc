#include "zeroshard/tools/launch/job.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/launch_environment.h"
#include "zeroshard/comm/store_default.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/comm/store_spec.h"
#include "zeroshard/comm/usable_cores.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/device_registry.h"
#include "zeroshard/device/our_thread.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/nearest.h"
#include "zeroshard/tools/launch/build_id.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/interrupt.h"
#include "zeroshard/tools/launch/meeting.h"
#include "zeroshard/tools/launch/own_device.h"
#include "zeroshard/tools/launch/rank_processes.h"
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

absl::StatusOr<std::unique_ptr<device::Device>> MakeRanksDevice(const JobPlan& plan, int rank) {
  if (plan.options.device != kCuda) return device::MakeCpuDevice({.threads = plan.threads});
  int local_rank = plan.kind == JobPlan::Kind::kThreads ? rank : plan.launch.local_rank.value_or(0);
  if (plan.options.share_gpu) {
    ZS_ASSIGN_OR_RETURN(const int gpus, device::CountDevices(kCuda));
    local_rank %= gpus;
  }
  return device::MakeDevice(kCuda, {.local_rank = local_rank, .threads = plan.threads});
}

struct RankWork {
  DeviceCheck check;
  RankBody body;
};

// What a body throws is an error of its rank: the others are told of it, whether they are processes or threads of this one.
absl::StatusOr<int> Call(const RankBody& body, comm::Communicator& communicator) {
  try {
    return body(communicator);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory: a std::bad_alloc was thrown");
  } catch (const std::exception& thrown) {
    return absl::InternalError(absl::StrCat("an exception was thrown: ", thrown.what()));
  } catch (...) {
    return absl::InternalError("an exception was thrown that is no std::exception");
  }
}

// One rank from device to farewell. `code` is what the process would end with for the rank's sake.
absl::Status RunRank(const JobPlan& plan, int rank, comm::Store& store, const RankWork& work, int& code) {
  const absl::StatusOr<std::unique_ptr<device::Device>> made = MakeRanksDevice(plan, rank);
  if (!made.ok()) {
    code = ExitCodeOf(made.status(), Phase::kStarting);
    return made.status();
  }
  device::Device* const device = made->get();
  device::OurThread::Begin(device);
  const absl::Status checked = work.check ? work.check(*device, rank) : absl::OkStatus();
  if (!checked.ok()) {
    code = ExitCodeOf(checked, Phase::kStarting);
    return checked;
  }
  const absl::Status own = CheckOwnDevice(store, {.identity = plan.options.share_gpu ? "" : device::IdentityOf(*device),
                                                  .rank = rank,
                                                  .world_size = plan.world_size,
                                                  .timeout = plan.options.timeout});
  if (!own.ok()) {
    code = ExitCodeOf(own, Phase::kConnecting);
    return own;
  }
  comm::BackendOptions options;
  options.device = device;
  options.store = &store;
  options.rank = rank;
  options.world_size = plan.world_size;
  options.timeout = plan.options.timeout;
  options.interface = InterfaceOf(plan.options.bind, rank);
  options.ports = plan.options.ports;
  options.master_address = MasterOf(plan.options.store);
  options.reduction = plan.options.reduction;
  options.share_gpu = plan.options.share_gpu;
  auto communicator = comm::CreateCommunicator(plan.options.backend, options);
  if (!communicator.ok()) {
    code = ExitCodeOf(communicator.status(), Phase::kConnecting);
    return communicator.status();
  }
  absl::StatusOr<int> ended = Call(work.body, **communicator);
  if (!ended.ok()) {
    (*communicator)->Abort(ended.status());
    code = ExitCodeOf(ended.status(), Phase::kRunning);
    return ended.status();
  }
  code = *ended;
  const absl::Status farewell = (*communicator)->Finalize();
  if (farewell.ok()) return absl::OkStatus();
  code = ExitCodeOf(farewell, Phase::kRunning);
  return farewell;
}

void SayError(const std::string& message) { std::cerr << ErrorText("error: ", message) << std::flush; }

int RunOneRank(const JobPlan& plan, const RankWork& work) {
  CatchInterrupts();
  std::unique_ptr<comm::Store> store = std::make_unique<comm::MemoryStore>();
  if (plan.world_size > 1) {
    auto opened = Meet({.store = plan.options.store,
                        .bind = plan.options.bind,
                        .token_file = plan.options.token_file,
                        .timeout = plan.options.timeout,
                        .terms = {{"--backend", plan.options.backend},
                                  {"--reduction", plan.options.reduction == comm::Reduction::kTree ? "tree" : "native"},
                                  {"the program", plan.options.name},
                                  {"the build", BuildId()}}},
                       plan.launch);
    if (!opened.ok()) {
      SayError(std::string(opened.status().message()));
      return ExitCodeOf(opened.status(), Phase::kConnecting);
    }
    store = *std::move(opened);
  }
  int code = kExitDone;
  const absl::Status status = RunRank(plan, plan.rank, *store, work, code);
  if (!status.ok()) SayError(std::string(status.message()));
  return code;
}

// The rank that failed for a reason of its own speaks before those that only noticed.
int RunThreads(const JobPlan& plan, const RankWork& work) {
  CatchInterrupts();
  comm::MemoryStore store;
  std::mutex mutex;
  int worst_rank = -1, worst_code = kExitDone;
  absl::Status worst;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < plan.world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      int code = kExitDone;
      absl::Status status = RunRank(plan, rank, store, work, code);
      std::lock_guard<std::mutex> lock(mutex);
      if (code == kExitDone || (worst_code != kExitDone && (worst_code != kExitPeer || code == kExitPeer))) return;
      worst_rank = rank;
      worst_code = code;
      worst = std::move(status);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  if (!worst.ok()) SayError(absl::StrCat("rank ", worst_rank, ": ", worst.message()));
  return worst_code;
}

int RunProcesses(const JobPlan& plan) {
  const int hosts = std::max<int>(1, static_cast<int>(plan.options.hosts.size()));
  return RunRankProcesses({.ranks = plan.world_size / hosts,
                           .arguments = plan.options.arguments,
                           .name = plan.options.name,
                           .hosts = plan.options.hosts,
                           .ssh = plan.options.ssh,
                           .ports = plan.options.ports});
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
  if (plan.options.device != kCuda) return absl::OkStatus();
  absl::StatusOr<VisibleGpus> gpus = LookAtGpusElsewhere(WishOf(plan, /*first=*/0, /*ranks=*/0));
  if (!gpus.ok()) return Plain(gpus.status());
  plan.gpus = *gpus;
  plan.world_size = plan.gpus.count;
  return absl::OkStatus();
}

// Whether each rank of this machine will have a GPU, and can work on it. Ranks on other hosts look for themselves.
absl::Status CheckGpus(JobPlan& plan) {
  if (plan.options.device != kCuda || !plan.options.hosts.empty()) return absl::OkStatus();
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

int RunJob(const JobPlan& plan, RankBody body, DeviceCheck check) {
  const RankWork work{.check = std::move(check), .body = std::move(body)};
  switch (plan.kind) {
    case JobPlan::Kind::kOneRank:
      return RunOneRank(plan, work);
    case JobPlan::Kind::kThreads:
      return RunThreads(plan, work);
    case JobPlan::Kind::kProcesses:
      return RunProcesses(plan);
  }
  return kExitBug;
}

}  // namespace zeroshard::tools
