#include "zeroshard/tools/launch/rank_spawner.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/rendezvous/job_token.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/meeting.h"
#include "zeroshard/tools/launch/remote_command.h"

namespace zeroshard::tools {
namespace {

using comm::Socket;

int SomePort(const comm::PortRange& ports) {
  std::random_device random;
  return comm::MadeUpPort(ports, random());
}

absl::Status Pipe(Socket& reads, Socket& writes) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  reads = Socket(ends[0]);
  writes = Socket(ends[1]);
  return absl::OkStatus();
}

std::string ThisProgram() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : path.string();
}

}  // namespace

void RankProcess::Tell(int signal) {
  if (status.has_value()) return;
  told = true;
  if (!orders) {
    kill(pid, signal);
    return;
  }
  // What a shell starts aside ignores SIGINT; every program ends on SIGTERM. The end of the orders kills the rank, that of the ssh
  // ends the orders.
  if (signal == SIGKILL) {
    orders = Socket();
    kill(pid, SIGKILL);
  } else {
    (void)!write(orders.get(), "TERM\n", 5);
  }
}

RankSpawner::RankSpawner(const RankProcessesOptions& options, const sigset_t& outside)
    : options_(options), outside_(outside), token_(comm::MakeJobToken()) {
  if (remote()) {
    master_address_ = HostOf(options_.hosts[0]);
    listener_.port = options_.port != 0 ? options_.port : SomePort(options_.ports);
    return;
  }
  master_address_ = "127.0.0.1";
  listener_ = ListenOnLoopback(options_.ports);
  if (!options_.program.empty()) listener_.socket = Socket();
}

int RankSpawner::world_size() const { return options_.ranks * std::max<int>(1, static_cast<int>(options_.hosts.size())); }

std::string RankSpawner::Describe(int rank) const {
  return absl::StrCat("rank ", rank, remote() ? absl::StrCat(" on ", Host(rank)) : "");
}

RankSpawner::Variables RankSpawner::Place(int rank) const {
  return {{"RANK", absl::StrCat(rank)},
          {"WORLD_SIZE", absl::StrCat(world_size())},
          {"LOCAL_RANK", absl::StrCat(rank % options_.ranks)},
          {"LOCAL_WORLD_SIZE", absl::StrCat(options_.ranks)},
          {"MASTER_ADDR", master_address_},
          {"MASTER_PORT", absl::StrCat(listener_.port)}};
}

std::vector<std::string> RankSpawner::Command(int rank) const {
  std::vector<std::string> command = {options_.program.empty() ? ThisProgram() : options_.program};
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  if (!remote()) return command;
  std::error_code error;
  const char* const users_folder = std::getenv("BUILD_WORKING_DIRECTORY");
  Variables variables = Place(rank);
  if (options_.program.empty()) variables.emplace_back(kRelayVariable, "plain");
  return SshCommand({.ssh = options_.ssh,
                     .host = Host(rank),
                     .folder = users_folder != nullptr ? users_folder : std::filesystem::current_path(error).string(),
                     .variables = std::move(variables),
                     .token_variable = kTokenVariable,
                     .command = std::move(command)});
}

void RankSpawner::Become(int rank, int input, int output, int errors) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigprocmask(SIG_SETMASK, &outside_, nullptr);
  if (!options_.program.empty()) signal(SIGPIPE, SIG_DFL);
  const bool live = isatty(STDERR_FILENO) != 0;
  dup2(input >= 0 ? input : open("/dev/null", O_RDONLY), STDIN_FILENO);
  if (output >= 0) dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  unsetenv(kListenerVariable);
  if (!remote()) {
    for (const auto& [name, value] : Place(rank)) setenv(name.c_str(), value.c_str(), 1);
    setenv(kTokenVariable, token_->c_str(), 1);
    if (options_.program.empty()) setenv(kRelayVariable, live ? "live" : "plain", 1);
    if (rank == 0 && listener_.socket) {
      fcntl(listener_.socket.get(), F_SETFD, 0);
      setenv(kListenerVariable, std::to_string(listener_.socket.get()).c_str(), 1);
    }
  }
  std::vector<std::string> words = Command(rank);
  const std::string file = words[0];
  if (!remote() && options_.program.empty()) words[0] = options_.name;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(file.c_str(), arguments.data());
  const std::string message = absl::StrCat("error: cannot start ", Describe(rank), ": ", file, ": ", strerror(errno), "\n");
  (void)!write(STDERR_FILENO, message.data(), message.size());
  _exit(kExitInput);
}

absl::StatusOr<RankProcess> RankSpawner::Start(int rank) {
  ZS_RETURN_IF_ERROR(token_.status());
  RankProcess started;
  Socket output, errors, input;
  ZS_RETURN_IF_ERROR(Pipe(started.errors, errors));
  if (relays_output()) ZS_RETURN_IF_ERROR(Pipe(started.output, output));
  if (remote()) ZS_RETURN_IF_ERROR(Pipe(input, started.orders));
  const pid_t parent = getpid();
  started.pid = fork();
  if (started.pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (started.pid == 0) {
    // The parent may have died before the child asked to die with it.
    if (getppid() != parent) _exit(kExitBug);
    Become(rank, input.get(), output.get(), errors.get());
  }
  setpgid(started.pid, started.pid);
  for (const Socket* const ours : {&started.output, &started.errors}) {
    if (*ours) fcntl(ours->get(), F_SETFL, O_NONBLOCK);
  }
  if (started.orders) {
    const std::string line = absl::StrCat(*token_, "\n");
    (void)!write(started.orders.get(), line.data(), line.size());
  }
  return started;
}

}  // namespace zeroshard::tools
