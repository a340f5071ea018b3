#include "zeroshard/tools/launch/rank_processes.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/tools/launch/blame.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/log_relay.h"

namespace zeroshard::tools {
namespace {

using Clock = std::chrono::steady_clock;

// See "Note: How a job ends".
constexpr std::chrono::milliseconds kToNotice(2000);
constexpr std::chrono::milliseconds kToObey(2000);
constexpr std::chrono::milliseconds kToFinishStep(10000);

sigset_t SignalsOfOurs() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&ours, signal);
  return ours;
}

bool Badly(int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }

class Job {
 public:
  Job(const RankProcessesOptions& options, const sigset_t& outside)
      : options_(options),
        spawner_(options, outside),
        relay_(spawner_.world_size(), STDERR_FILENO,
               isatty(STDERR_FILENO) != 0 ? LogRelay::Progress::kLive : LogRelay::Progress::kLines),
        output_relay_(spawner_.world_size(), STDOUT_FILENO, LogRelay::Progress::kLines) {}
  int Run();

 private:
  bool StartAll();
  void Watch();
  bool Hear();
  void OnSignal(int signal);
  void Reap();
  void Tell(int signal);
  void PressOn();
  bool Running() const;
  int Cause() const;
  int Verdict() const;
  std::string WhyEnded(int rank) const;
  std::string WhatOthersSaid(int killed) const;
  // Of an ssh that says so of itself, not of its rank.
  bool LostBySsh(int status) const { return spawner_.remote() && WIFEXITED(status) && WEXITSTATUS(status) == 255; }

  const RankProcessesOptions& options_;
  RankSpawner spawner_;
  LogRelay relay_;
  LogRelay output_relay_;
  std::vector<RankProcess> ranks_;
  std::vector<int> order_;  // in which ranks ended
  int signals_ = -1;        // a signalfd
  int interrupted_by_ = 0;
  int next_signal_ = 0;  // what ranks that still run are sent at deadline_; 0: nothing
  Clock::time_point deadline_;
};

bool Job::Running() const {
  for (const RankProcess& rank : ranks_) {
    if (!rank.status) return true;
  }
  return false;
}

void Job::Tell(int signal) {
  for (RankProcess& rank : ranks_) rank.Tell(signal);
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

// Reads what there is, and gives true if there was any; closes the pipe at its end.
bool HearOne(comm::Socket& pipe, LogRelay& relay, int rank) {
  std::array<char, 1 << 14> bytes;
  if (!pipe) return false;
  const ssize_t got = read(pipe.get(), bytes.data(), bytes.size());
  if (got > 0) relay.Feed(rank, std::string_view(bytes.data(), static_cast<size_t>(got)));
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) pipe = comm::Socket();
  return got > 0;
}

bool Job::Hear() {
  bool heard = false;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    heard = HearOne(ranks_[i].output, output_relay_, static_cast<int>(i)) || heard;
    heard = HearOne(ranks_[i].errors, relay_, static_cast<int>(i)) || heard;
  }
  return heard;
}

void Job::Watch() {
  std::vector<pollfd> waiting = {{signals_, POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    for (const comm::Socket* const pipe : {&rank.output, &rank.errors}) {
      if (*pipe) waiting.push_back({pipe->get(), POLLIN, 0});
    }
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

// A rank that was killed says nothing: the first that names it does, else the first that noticed, and where to read on.
std::string Job::WhatOthersSaid(int killed) const {
  int says = -1;
  for (const int rank : order_) {
    const std::string& reason = relay_.Reason(rank);
    if (rank == killed || reason.empty()) continue;
    const bool names = WhomBlames(rank, reason) == killed;
    if (says < 0 || names) says = rank;
    if (names) break;
  }
  return says < 0 ? "" : absl::StrCat("; ", spawner_.Describe(says), ": ", relay_.Reason(says));
}

std::string Job::WhyEnded(int rank) const {
  const int status = *ranks_[static_cast<size_t>(rank)].status;
  const std::string name = spawner_.Describe(rank);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return absl::StrCat(name, " was killed by signal ", signal, " (", strsignal(signal), ") and the job ended with it",
                        signal == SIGKILL ? "; if nobody killed it, the machine may be out of memory: see dmesg" : "",
                        WhatOthersSaid(rank));
  }
  const std::string& reason = relay_.Reason(rank);
  if (!reason.empty()) return absl::StrCat(name, ": ", reason);
  if (LostBySsh(status)) {
    return absl::StrCat(name, ": ", options_.ssh, " ended with code 255: the host was not reached, or the connection broke");
  }
  return absl::StrCat(name, " ended with code ", WEXITSTATUS(status), " and gave no reason");
}

// A rank that was lost is the cause before one that noticed.
int Job::Cause() const {
  std::vector<RankEnd> ends;
  for (const int rank : order_) {
    const RankProcess& process = ranks_[static_cast<size_t>(rank)];
    if (!Badly(*process.status) || (WIFSIGNALED(*process.status) && process.told)) continue;
    const bool noticed = WIFEXITED(*process.status) && WEXITSTATUS(*process.status) == kExitPeer;
    ends.push_back({.rank = rank, .noticed = noticed, .words = relay_.Reason(rank)});
  }
  const std::optional<size_t> quoted = RankToQuote(ends);
  return quoted ? ends[*quoted].rank : -1;
}

int Job::Verdict() const {
  const int cause = Cause();
  if (interrupted_by_ != 0) {
    bool all_done = true;
    for (const RankProcess& rank : ranks_) all_done = all_done && !Badly(*rank.status);
    return all_done ? kExitDone : interrupted_by_ == SIGTERM ? kExitTerminated : kExitInterrupted;
  }
  if (cause < 0) return order_.empty() || !Badly(*ranks_[0].status) ? kExitDone : kExitPeer;
  const std::string message = absl::StrCat(options_.name, ": ", WhyEnded(cause), "\n");
  (void)!write(STDERR_FILENO, message.data(), message.size());
  const int status = *ranks_[static_cast<size_t>(cause)].status;
  return WIFSIGNALED(status) || LostBySsh(status) ? kExitPeer : WEXITSTATUS(status);
}

bool Job::StartAll() {
  for (int rank = 0; rank < spawner_.world_size(); ++rank) {
    absl::StatusOr<RankProcess> started = spawner_.Start(rank);
    if (started.ok()) {
      ranks_.push_back(*std::move(started));
      continue;
    }
    Tell(SIGKILL);
    const std::string message =
        absl::StrCat(options_.name, ": cannot start ", spawner_.Describe(rank), ": ", started.status().message(), "\n");
    (void)!write(STDERR_FILENO, message.data(), message.size());
    next_signal_ = SIGKILL;
    return false;
  }
  return true;
}

int Job::Run() {
  sigset_t ours = SignalsOfOurs();
  signals_ = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
  const bool all = StartAll();
  while (Running()) Watch();
  while (Hear()) {
  }
  output_relay_.End();
  relay_.End();
  close(signals_);
  return all ? Verdict() : kExitMemory;
}

}  // namespace

int RunRankProcesses(const RankProcessesOptions& options) {
  const sigset_t ours = SignalsOfOurs();
  sigset_t outside;
  sigprocmask(SIG_BLOCK, &ours, &outside);
  const int code = Job(options, outside).Run();
  sigprocmask(SIG_SETMASK, &outside, nullptr);
  return code;
}

}  // namespace zeroshard::tools
