#include "zeroshard/integration_tests/launchers/one_node_slurm.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zeroshard::integration_tests {
namespace {

constexpr char kControl[] = "/usr/sbin/slurmctld";
constexpr char kNode[] = "/usr/sbin/slurmd";
constexpr char kMunge[] = "/usr/sbin/munged";

std::string HostName() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  const std::string whole = name.data();
  return whole.substr(0, whole.find('.'));
}

}  // namespace

OneNodeSlurm::OneNodeSlurm(std::string folder) : folder_(std::move(folder)) {
  for (const char* program : {kControl, kNode, kMunge, "/usr/bin/srun", "/usr/bin/sinfo"}) {
    if (access(program, X_OK) == 0) continue;
    why_not_ = absl::StrCat("there is no ", program, " on this machine: see tools/launchers.txt");
    return;
  }
  if (geteuid() != 0) {
    why_not_ = "Slurm's daemons run as root, and this test does not";
    return;
  }
  Configure();
  Start({kMunge, "--foreground", "--force", absl::StrCat("--key-file=", folder_, "/key"),
         absl::StrCat("--socket=", folder_, "/munge"), absl::StrCat("--pid-file=", folder_, "/munge.pid"),
         absl::StrCat("--log-file=", folder_, "/munge.log"), absl::StrCat("--seed-file=", folder_, "/seed")});
  for (int i = 0; i < 100 && access((folder_ + "/munge").c_str(), F_OK) != 0; ++i) usleep(50000);
  Start({kControl, "-D", "-f", configuration()});
  Start({kNode, "-D", "-f", configuration()});
  if (!AwaitIdleNode()) why_not_ = "Slurm's node does not come up on this machine";
}

void OneNodeSlurm::Configure() const {
  std::filesystem::create_directories(folder_ + "/state");
  std::filesystem::create_directories(folder_ + "/spool");
  std::ofstream(folder_ + "/key", std::ios::binary) << std::string(1024, 'k');
  chmod((folder_ + "/key").c_str(), 0600);
  const std::string host = HostName();
  const int port = 20000 + getpid() % 5000 * 2;
  std::ofstream(configuration()) << absl::StrCat(
      "ClusterName=test\nSlurmctldHost=", host, "(127.0.0.1)\nAuthType=auth/munge\nAuthInfo=socket=", folder_,
      "/munge\nCredType=cred/munge\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSlurmUser=root\nSlurmctldPort=",
      port, "\nSlurmdPort=", port + 1, "\nStateSaveLocation=", folder_, "/state\nSlurmdSpoolDir=", folder_,
      "/spool\nSlurmctldPidFile=", folder_, "/control.pid\nSlurmdPidFile=", folder_, "/node.pid\nSlurmctldLogFile=", folder_,
      "/control.log\nSlurmdLogFile=", folder_, "/node.log\nReturnToService=2\nNodeName=", host,
      " NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN\nSlurmdParameters=config_overrides\nPartitionName=all Nodes=", host,
      " Default=YES MaxTime=INFINITE State=UP\n");
}

void OneNodeSlurm::Start(const std::vector<std::string>& words) {
  const pid_t daemon = fork();
  if (daemon > 0) daemons_.push_back(daemon);
  if (daemon != 0) return;
  const int log = open((folder_ + "/daemons.log").c_str(), O_CREAT | O_APPEND | O_WRONLY, 0600);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

bool OneNodeSlurm::AwaitIdleNode() const {
  const std::string ask =
      absl::StrCat("SLURM_CONF='", configuration(), "' /usr/bin/sinfo -h -o %t 2>/dev/null | grep -q idle");
  for (int i = 0; i < 200; ++i) {
    if (std::system(ask.c_str()) == 0) return true;
    usleep(100000);
  }
  return false;
}

OneNodeSlurm::~OneNodeSlurm() {
  // The node first, munge last.
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
    kill(*daemon, SIGTERM);
    for (int i = 0; i < 100 && waitpid(*daemon, nullptr, WNOHANG) == 0; ++i) usleep(50000);
    kill(*daemon, SIGKILL);
    waitpid(*daemon, nullptr, 0);
  }
  std::error_code ignored;
  if (!daemons_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace zeroshard::integration_tests
