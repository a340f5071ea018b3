#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/comm/store_spec.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/integration_tests/faults/ranks.h"

namespace zeroshard::integration_tests {
namespace {

class ProcessRanks final : public Ranks {
 public:
  ProcessRanks(std::string backend, std::vector<std::pair<std::string, std::string>> environment)
      : backend_(std::move(backend)),
        environment_(std::move(environment)),
        folder_(absl::StrCat(::testing::TempDir(), "/store.XXXXXX")) {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }

  ~ProcessRanks() override {
    for (const pid_t process : processes_) kill(process, SIGKILL);
    for (const pid_t process : processes_) waitpid(process, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }

  void Start(int world_size, absl::Duration timeout, const Body& body, int started) override {
    for (int rank = 0; rank < std::min(world_size, started); ++rank) {
      const pid_t process = fork();
      ASSERT_GE(process, 0);
      if (process > 0) {
        processes_.push_back(process);
        continue;
      }
      for (const auto& [name, value] : environment_) setenv(name.c_str(), value.c_str(), 1);
      // Of meeting: more than a busy machine takes to start them all.
      const absl::Duration meeting = started < world_size ? timeout : std::max(timeout, absl::Seconds(5));
      Note(report(rank), Run(rank, world_size, timeout, meeting, body));
      _exit(0);
    }
  }

  void Kill(int rank) override { EXPECT_EQ(kill(process(rank), SIGKILL), 0); }
  void Stop(int rank) override { EXPECT_EQ(kill(process(rank), SIGSTOP), 0); }
  void Continue(int rank) override { EXPECT_EQ(kill(process(rank), SIGCONT), 0); }
  pid_t process(int rank) override { return processes_[static_cast<size_t>(rank)]; }

  int64_t CpuMs(int rank) override {
    std::ifstream file(absl::StrCat("/proc/", process(rank), "/stat"));
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    int64_t user = 0, system = 0;
    fields >> user >> system;
    return (user + system) * 1000 / sysconf(_SC_CLK_TCK);
  }

  int64_t FilesLeft() override {
    return std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator());
  }

  std::string Crash(int rank) override {
    siginfo_t end = {};
    // It is about to end, and stays to be collected.
    if (waitid(P_PID, static_cast<id_t>(process(rank)), &end, WEXITED | WNOWAIT) != 0) return "is no child";
    return end.si_code == CLD_EXITED ? "" : absl::StrCat("signal ", end.si_status);
  }

 private:
  absl::Status Run(int rank, int world_size, absl::Duration timeout, absl::Duration meeting, const Body& body) {
    const std::unique_ptr<device::Device> device = device::MakeCpuDevice();
    auto store = comm::OpenStore("file:" + folder_, {.rank = rank, .world_size = world_size, .timeout = meeting});
    if (!store.ok()) return store.status();
    comm::BackendOptions options;
    options.device = device.get();
    options.store = store->get();
    options.rank = rank;
    options.world_size = world_size;
    options.timeout = timeout;
    auto communicator = comm::CreateCommunicator(backend_, options);
    if (!communicator.ok()) return communicator.status();
    return body(**communicator, report(rank));
  }

  const std::string backend_;
  const std::vector<std::pair<std::string, std::string>> environment_;
  std::string folder_;
  std::vector<pid_t> processes_;
};

}  // namespace

std::unique_ptr<Ranks> MakeProcessRanks(const std::string& backend,
                                        std::vector<std::pair<std::string, std::string>> environment) {
  return std::make_unique<ProcessRanks>(backend, std::move(environment));
}

}  // namespace zeroshard::integration_tests
