#include "zeroshard/tools/launch/job.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/device_registry.h"
#include "zeroshard/device/our_thread.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/launch/blame.h"
#include "zeroshard/tools/launch/build_id.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/interrupt.h"
#include "zeroshard/tools/launch/meeting.h"
#include "zeroshard/tools/launch/own_device.h"
#include "zeroshard/tools/launch/rank_processes.h"
#include "zeroshard/tools/launch/refusal.h"

namespace zeroshard::tools {
namespace {

absl::StatusOr<std::unique_ptr<device::Device>> MakeRanksDevice(const JobPlan& plan, int rank) {
  if (!plan.on_gpus()) return device::MakeCpuDevice({.threads = plan.threads});
  int local_rank = plan.kind == JobPlan::Kind::kThreads ? rank : plan.launch.local_rank.value_or(0);
  if (plan.options.share_gpu) {
    ZS_ASSIGN_OR_RETURN(const int gpus, device::CountDevices(plan.options.device));
    local_rank %= gpus;
  }
  return device::MakeDevice(plan.options.device, {.local_rank = local_rank, .threads = plan.threads});
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
                                                  .libraries = device::LibrariesOf(*device),
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

// How each rank ended that did not end well, in that order, and what the process would end with for it.
struct BadEnds {
  std::vector<RankEnd> ends;
  std::vector<int> codes;

  void Add(int rank, int code, const absl::Status& why) {
    if (code == kExitDone) return;
    ends.push_back({.rank = rank, .noticed = code == kExitPeer, .words = std::string(why.message())});
    codes.push_back(code);
  }
};

int RunThreads(const JobPlan& plan, const RankWork& work) {
  CatchInterrupts();
  comm::MemoryStore store;
  std::mutex mutex;
  BadEnds bad;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < plan.world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      int code = kExitDone;
      const absl::Status status = RunRank(plan, rank, store, work, code);
      std::lock_guard<std::mutex> lock(mutex);
      bad.Add(rank, code, status);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const std::optional<size_t> quoted = RankToQuote(bad.ends);
  if (!quoted) return kExitDone;
  const RankEnd& end = bad.ends[*quoted];
  if (!end.words.empty()) SayError(absl::StrCat("rank ", end.rank, ": ", end.words));
  return bad.codes[*quoted];
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

}  // namespace

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
