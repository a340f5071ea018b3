#include "zeroshard/integration_tests/faults/thread_ranks.h"

#include <unistd.h>

#include <thread>

#include "gtest/gtest.h"
#include "zeroshard/backends/in_process/in_process.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::integration_tests {
namespace {

class ThreadRanks final : public Ranks {
 public:
  ~ThreadRanks() override {
    for (size_t r = 0; r < threads_.size(); ++r) {
      switch_.Thaw(static_cast<int>(r));
      switch_.Kill(static_cast<int>(r));
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void Start(int world_size, absl::Duration timeout, const Body& body, int /*started*/) override {
    std::vector<device::Device*> devices;
    for (int r = 0; r < world_size; ++r) {
      devices_.push_back(device::MakeCpuDevice());
      devices.push_back(devices_.back().get());
    }
    backends::InProcessOptions options;
    options.host.timeout = timeout;
    options.fault_switch = &switch_;
    auto group = backends::MakeInProcessGroup(devices, options);
    ASSERT_TRUE(group.ok()) << group.status();
    for (int r = 0; r < world_size; ++r) {
      threads_.emplace_back([this, r, body, rank = std::move((*group)[static_cast<size_t>(r)])]() mutable {
        const absl::Status ended = body(*rank, report(r));
        rank.reset();
        Note(report(r), ended);
      });
    }
  }

  void Kill(int rank) override { switch_.Kill(rank); }
  void Stop(int rank) override { switch_.Freeze(rank); }
  void Continue(int rank) override { switch_.Thaw(rank); }
  int64_t CpuMs(int /*rank*/) override { return ProcessCpuMs(); }
  pid_t process(int /*rank*/) override { return getpid(); }
  std::string Crash(int /*rank*/) override { return ""; }
  int64_t FilesLeft() override { return 0; }

 private:
  backends::FaultSwitch switch_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Ranks> MakeThreadRanks() { return std::make_unique<ThreadRanks>(); }

}  // namespace zeroshard::integration_tests
