#include "zeroshard/backends/in_process/in_process.h"

#include "gtest/gtest.h"
#include "zeroshard/comm/testing/collective_suite.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/late/late_device.h"

namespace zeroshard::comm::testing {
namespace {

Backend InProcess(std::string name, backends::InProcessOptions base) {
  return {.name = std::move(name),
          .make_ranks =
              [base](const std::vector<device::Device*>& devices, const HostOptions& host) {
                backends::InProcessOptions options = base;
                const bool poison = base.host.poison_outputs;
                options.host = host;
                options.host.poison_outputs = poison;
                auto ranks = backends::MakeInProcessGroup(devices, options);
                EXPECT_TRUE(ranks.ok()) << ranks.status();
                return *std::move(ranks);
              },
          .make_device = [] { return device::MakeCpuDevice(); }};
}

Backend ByMessages() {
  backends::InProcessOptions options;
  options.mapped = false;
  return InProcess("Messages", options);
}

Backend Hostile() {
  backends::InProcessOptions options;
  options.host.poison_outputs = true;
  options.faults = {.seed = 5, .max_delay = absl::Microseconds(30)};
  return InProcess("MappedDelayedPoisoned", options);
}

Backend HostileMessages() {
  backends::InProcessOptions options;
  options.mapped = false;
  options.host.poison_outputs = true;
  options.faults = {.seed = 5, .max_delay = absl::Microseconds(30)};
  return InProcess("MessagesDelayedPoisoned", options);
}

// On device/late, whose memory is staged; a pair of accesses that no event orders ends the test.
Backend OnLate(std::string name, device::LateOptions late) {
  Backend backend = InProcess(std::move(name), {});
  backend.make_device = [late] { return device::MakeLateDevice(late); };
  backend.most_ranks = 3;
  return backend;
}

INSTANTIATE_TEST_SUITE_P(InProcess, CollectiveTest,
                         ::testing::Values(InProcess("Mapped", {}), ByMessages(), Hostile(), HostileMessages(),
                                           OnLate("LateLazy", {.order = device::LateOrder::kLazy}),
                                           OnLate("LateRandom", {.order = device::LateOrder::kRandom, .seed = 9})),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(InProcess, FailureTest,
                         ::testing::Values(InProcess("Mapped", {}), ByMessages(), HostileMessages(),
                                           OnLate("LateLazy", {.order = device::LateOrder::kLazy})),
                         BackendName);

}  // namespace
}  // namespace zeroshard::comm::testing
