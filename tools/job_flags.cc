#include "zeroshard/tools/job_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/user_path.h"
#include "zeroshard/tools/launch/remote_command.h"

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
                      "      in_process (threads of one process), nccl (GPUs).",
              .example = "--backend=in_process"});
  flags.Choice(
      "device", &device_, {"auto", "cpu", "cuda"},
      {.group = kGroup,
       .text = "What computes: this machine's cores, or a GPU for each rank. auto: cuda with --backend=nccl, else cpu.",
       .example = "--device=cpu"});
  flags.Choice(
      "reduction", &reduction_, {"auto", "tree", "native"},
      {.group = kGroup,
       .text =
           "Sums of --backend=nccl: tree (our order over ranks, one rounding: the bits of every other backend) or native\n"
           "      (NCCL's own, in any order). auto: tree; but native where train runs in fp32 without --world_invariant.",
       .example = "--reduction=tree"});
  flags.Boolean(
      "share_gpu", &share_gpu_,
      {.group = kGroup, .text = "Ranks of a machine may share its GPUs: for tests, it is slow.", .example = "--share_gpu"});
  flags.Integer("nproc", &nproc_, {.least = 1, .most = 1024},
                {.group = kGroup,
                 .text = "Ranks to start on this machine, where no launcher has.",
                 .example = "--nproc=4",
                 .unit = "ranks",
                 .default_text = "2; with --device=cuda the GPUs that are visible here"});
  flags.Text(
      "hosts", &hosts_,
      {.group = kGroup,
       .text = "Hosts to start --nproc ranks on, each, over ssh; the program and this folder are there under the same path.",
       .example = "--hosts=node1,node2",
       .default_text = "this machine"});
  flags.Text("ssh", &ssh_, {.group = kGroup, .text = "The ssh for --hosts.", .example = "--ssh=/usr/bin/ssh"});
  flags.Text("store", &store_,
             {.group = kGroup,
              .text = "Where ranks meet: tcp:HOST:PORT, which rank 0 serves, or file:PATH, a folder that all of them see.",
              .example = "--store=tcp:node1:29500",
              .default_text = "tcp at MASTER_ADDR:MASTER_PORT, or as Slurm's or mpirun's variables say"});
  flags.Text("bind", &bind_,
             {.group = kGroup,
              .text = "Where to listen: an interface, the beginning of its name, ^what,not; or an address of rank 0's host.",
              .example = "--bind=eth0",
              .default_text = "loopback on one host; the way to rank 0 on several"});
  flags.Text(
      "port_range", &port_range_,
      {.group = kGroup,
       .text = "Ports at which ranks may listen, where a firewall lets through no others: two for each rank of a host,\n"
               "      two more for each group with --shard_size. Of gloo and ucx, and of where ranks meet, unless --store "
               "says that.",
       .example = "--port_range=20000-20099",
       .default_text = "any that is free"});
  flags.Text(
      "token_file", &token_file_,
      {.group = kGroup,
       .text = "A file of mode 600 with the job's token, the same 16 or more random characters on every host: where ranks\n"
               "      that this program did not start share no folder of their user's.",
       .example = "--token_file=/run/job7.token",
       .default_text = "none; rank 0 makes a token"});
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

absl::StatusOr<JobPlan> JobFlags::Plan(const FlagSet& flags, const std::string& name, int argc, const char* const* argv,
                                       comm::Reduction reduction) const {
  JobOptions options;
  options.backend = backend_;
  options.device = device_;
  if (flags.WasSet("nproc")) options.nproc = static_cast<int>(nproc_);
  options.store = UserStore(store_);
  options.bind = bind_;
  ZS_ASSIGN_OR_RETURN(options.ports, comm::ParsePortRange(port_range_));
  options.ssh = ssh_;
  if (!hosts_.empty()) {
    ZS_ASSIGN_OR_RETURN(options.hosts, ParseHosts(hosts_));
  }
  if (!token_file_.empty()) options.token_file = UserPath(token_file_);
  options.threads = static_cast<int>(threads_);
  options.timeout = absl::Seconds(timeout_s_);
  if (reduction_ == "native" && backend_ != "nccl") {
    return absl::InvalidArgumentError(absl::StrCat(flags.Given("reduction"), " is NCCL's, and the sums of --backend=",
                                                   backend_, " follow the tree: take --backend=nccl, or leave it out"));
  }
  options.reduction = reduction_ == "tree"     ? comm::Reduction::kTree
                      : reduction_ == "native" ? comm::Reduction::kNative
                      : backend_ == "nccl"     ? reduction
                                               : comm::Reduction::kTree;
  options.share_gpu = share_gpu_;
  options.name = name;
  options.arguments.assign(argv + 1, argv + argc);
  return PlanJob(options);
}

}  // namespace zeroshard::tools
