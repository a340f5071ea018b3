#include "zeroshard/tools/launch/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/free_port.h"
#include "zeroshard/tools/launch/log_relay.h"

namespace zeroshard::tools {
namespace {

using Clock = std::chrono::steady_clock;

// See "Note: How a job ends".
constexpr std::chrono::milliseconds kToNotice(2000);
constexpr std::chrono::milliseconds kToObey(2000);
constexpr std::chrono::milliseconds kToFinishStep(10000);

struct RankProcess {
  pid_t pid = -1;
  int errors = -1;            // our end of its standard error; -1: closed
  std::optional<int> status;  // as waitpid gives it
  bool told = false;          // a signal of ours may be why it ended
};

bool Badly(int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }

class Job {
 public:
  explicit Job(const RankProcessesOptions& options)
      : options_(options),
        relay_(options.ranks, STDERR_FILENO,
               isatty(STDERR_FILENO) != 0 ? LogRelay::Progress::kLive : LogRelay::Progress::kLines) {}
  int Run();

 private:
  bool Start(int rank, int port);
  [[noreturn]] void BecomeRank(int rank, int port, int errors);
  void Watch();
  void Hear();
  void OnSignal(int signal);
  void Reap();
  void Tell(int signal);
  void PressOn();
  bool Running() const;
  int Verdict() const;
  std::string WhyEnded(int rank) const;

  const RankProcessesOptions& options_;
  LogRelay relay_;
  std::vector<RankProcess> ranks_;
  std::vector<int> order_;  // in which ranks ended
  int signals_ = -1;        // a signalfd
  sigset_t outside_;        // the signal mask before ours
  int interrupted_by_ = 0;
  int next_signal_ = 0;  // what ranks that still run are sent at deadline_; 0: nothing
  Clock::time_point deadline_;
};

// Runs in the child, between fork and exec.
void Job::BecomeRank(int rank, int port, int errors) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigprocmask(SIG_SETMASK, &outside_, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  const bool live = isatty(STDERR_FILENO) != 0;
  dup2(errors, STDERR_FILENO);
  const std::string number = std::to_string(rank), size = std::to_string(options_.ranks);
  setenv("RANK", number.c_str(), 1);
  setenv("LOCAL_RANK", number.c_str(), 1);
  setenv("WORLD_SIZE", size.c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", size.c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  setenv(kRelayVariable, live ? "live" : "plain", 1);
  std::vector<char*> arguments = {const_cast<char*>(options_.name.c_str())};
  for (const std::string& argument : options_.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  const std::string message = absl::StrCat("error: cannot start rank ", rank, ": ", strerror(errno), "\n");
  (void)!write(STDERR_FILENO, message.data(), message.size());
  _exit(kExitBug);
}

bool Job::Start(int rank, int port) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // The parent may have died before the child asked to die with it.
    if (getppid() != parent) _exit(kExitBug);
    BecomeRank(rank, port, ends[1]);
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return false;
  }
  setpgid(pid, pid);
  ranks_.push_back({.pid = pid, .errors = ends[0], .status = std::nullopt});
  return true;
}

bool Job::Running() const {
  for (const RankProcess& rank : ranks_) {
    if (!rank.status) return true;
  }
  return false;
}

void Job::Tell(int signal) {
  for (RankProcess& rank : ranks_) {
    if (rank.status) continue;
    rank.told = true;
    kill(rank.pid, signal);
  }
}

void Job::OnSignal(int signal) {
  if (signal == SIGCHLD) return Reap();
  Tell(interrupted_by_ == 0 ? signal : SIGKILL);
  interrupted_by_ = signal;
  next_signal_ = SIGKILL;
  deadline_ = Clock::now() + kToFinishStep;
}

void Job::Reap() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    int status = 0;
    if (ranks_[i].status || waitpid(ranks_[i].pid, &status, WNOHANG) != ranks_[i].pid) continue;
    ranks_[i].status = status;
    order_.push_back(static_cast<int>(i));
    if (!Badly(status) || next_signal_ != 0) continue;
    next_signal_ = SIGTERM;
    deadline_ = Clock::now() + kToNotice;
  }
}

// What was to be sent by now is sent, and the next, harder thing is due later.
void Job::PressOn() {
  if (next_signal_ == 0 || Clock::now() < deadline_) return;
  Tell(next_signal_);
  next_signal_ = SIGKILL;
  deadline_ = Clock::now() + kToObey;
}

void Job::Hear() {
  std::array<char, 1 << 14> bytes;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].errors < 0) continue;
    const ssize_t got = read(ranks_[i].errors, bytes.data(), bytes.size());
    if (got > 0) relay_.Feed(static_cast<int>(i), std::string_view(bytes.data(), static_cast<size_t>(got)));
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) continue;
    close(ranks_[i].errors);
    ranks_[i].errors = -1;
  }
}

void Job::Watch() {
  std::vector<pollfd> waiting = {{signals_, POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    if (rank.errors >= 0) waiting.push_back({rank.errors, POLLIN, 0});
  }
  int limit_ms = -1;
  if (next_signal_ != 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    limit_ms = left < 0 ? 0 : static_cast<int>(left) + 1;
  }
  if (poll(waiting.data(), waiting.size(), limit_ms) < 0 && errno != EINTR) return;
  Hear();
  signalfd_siginfo signal = {};
  while (read(signals_, &signal, sizeof signal) == sizeof signal) OnSignal(static_cast<int>(signal.ssi_signo));
  PressOn();
}

std::string Job::WhyEnded(int rank) const {
  const int status = *ranks_[static_cast<size_t>(rank)].status;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return absl::StrCat("rank ", rank, " was killed by signal ", signal, " (", strsignal(signal),
                        ") and the job ended with it",
                        signal == SIGKILL ? "; if nobody killed it, the machine may be out of memory: see dmesg" : "");
  }
  const std::string& reason = relay_.Reason(rank);
  if (!reason.empty()) return absl::StrCat("rank ", rank, ": ", reason);
  return absl::StrCat("rank ", rank, " ended with code ", WEXITSTATUS(status), " and gave no reason");
}

// A rank that was lost is the cause before one that noticed; of each kind, the first to end.
int Job::Verdict() const {
  int noticed = -1, cause = -1;
  for (const int rank : order_) {
    const RankProcess& process = ranks_[static_cast<size_t>(rank)];
    if (!Badly(*process.status) || (WIFSIGNALED(*process.status) && process.told)) continue;
    const bool notices = WIFEXITED(*process.status) && WEXITSTATUS(*process.status) == kExitPeer;
    int& slot = notices ? noticed : cause;
    if (slot < 0) slot = rank;
  }
  if (cause < 0) cause = noticed;
  if (interrupted_by_ != 0) {
    bool all_done = true;
    for (const RankProcess& rank : ranks_) all_done = all_done && !Badly(*rank.status);
    return all_done ? kExitDone : interrupted_by_ == SIGTERM ? kExitTerminated : kExitInterrupted;
  }
  if (cause < 0) return order_.empty() || !Badly(*ranks_[0].status) ? kExitDone : kExitPeer;
  const std::string message = absl::StrCat(options_.name, ": ", WhyEnded(cause), "\n");
  (void)!write(STDERR_FILENO, message.data(), message.size());
  const int status = *ranks_[static_cast<size_t>(cause)].status;
  return WIFSIGNALED(status) ? kExitPeer : WEXITSTATUS(status);
}

int Job::Run() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&ours, signal);
  sigprocmask(SIG_BLOCK, &ours, &outside_);
  signals_ = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
  const int port = FreePort();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (Start(rank, port)) continue;
    const std::string message = absl::StrCat(options_.name, ": cannot start rank ", rank, ": ", strerror(errno), "\n");
    Tell(SIGKILL);
    (void)!write(STDERR_FILENO, message.data(), message.size());
    next_signal_ = SIGKILL;
    break;
  }
  for (RankProcess& rank : ranks_) fcntl(rank.errors, F_SETFL, O_NONBLOCK);
  while (Running()) Watch();
  Hear();
  relay_.End();
  close(signals_);
  sigprocmask(SIG_SETMASK, &outside_, nullptr);
  if (static_cast<int>(ranks_.size()) < options_.ranks) return kExitMemory;
  return Verdict();
}

}  // namespace

int RunRankProcesses(const RankProcessesOptions& options) { return Job(options).Run(); }

}  // namespace zeroshard::tools
