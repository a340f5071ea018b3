#include "zeroshard/comm/backend_registry.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::comm {
namespace {

absl::StatusOr<std::unique_ptr<Communicator>> Refuse(const BackendOptions& /*options*/) {
  return absl::UnavailableError("the factory was called");
}

class BackendRegistryTest : public ::testing::Test {
 protected:
  BackendRegistryTest() {
    RegisterBackend("gloo", &Refuse);
    RegisterBackend("in_process", &Refuse);
    options_.device = device_.get();
    options_.store = &store_;
  }

  absl::Status Create(std::string_view name) { return CreateCommunicator(name, options_).status(); }

  std::unique_ptr<device::Device> device_ = device::MakeCpuDevice();
  MemoryStore store_;
  BackendOptions options_;
};

TEST_F(BackendRegistryTest, CallsTheFactoryOfThatName) { EXPECT_TRUE(absl::IsUnavailable(Create("gloo"))); }

TEST_F(BackendRegistryTest, NamesTheNearestAndAllWhereTheNameIsUnknown) {
  const absl::Status told = Create("glo");
  EXPECT_TRUE(absl::IsInvalidArgument(told));
  EXPECT_TRUE(absl::StrContains(told.message(), "'glo' is not built in; the nearest is 'gloo'")) << told;
  EXPECT_TRUE(absl::StrContains(told.message(), "gloo, in_process")) << told;
  EXPECT_TRUE(absl::StrContains(Create("inprocess").message(), "nearest is 'in_process'"));
}

TEST_F(BackendRegistryTest, LooksAroundForTheBackendThatWantsTo) {
  const auto look = [](const BackendOptions& options) { return absl::NotFoundError("no " + options.interface); };
  EXPECT_TRUE(CheckSurroundings("gloo", {}).ok());
  EXPECT_TRUE(CheckSurroundings("nobody's", {}).ok());
  RegisterBackend("in_process", &Refuse, look);
  EXPECT_EQ(CheckSurroundings("in_process", {.interface = "eth7"}).message(), "no eth7");
}

TEST_F(BackendRegistryTest, KnowsWhatABackendTakesWhereTheBackendIsNotThereYet) {
  EXPECT_EQ(MemoryOf("gloo", {.world_size = 3}).device_bytes, 0);
  RegisterMemory("later", [](const MemoryRequest& request) {
    return BackendMemory{.device_bytes = 100 * request.world_size, .host_bytes = request.opaque ? 7 : 0};
  });
  EXPECT_EQ(MemoryOf("later", {.world_size = 3}).device_bytes, 300);
  EXPECT_EQ(MemoryOf("later", {.world_size = 3, .opaque = true}).host_bytes, 7);
  EXPECT_TRUE(absl::IsInvalidArgument(Create("later")));
  for (const std::string& name : Backends()) EXPECT_NE(name, "later");
  RegisterBackend("later", &Refuse);
  EXPECT_TRUE(absl::IsUnavailable(Create("later")));
  EXPECT_EQ(MemoryOf("later", {.world_size = 2}).device_bytes, 200) << "what was said before stays";
}

TEST_F(BackendRegistryTest, RefusesOptionsThatMakeNoSense) {
  const BackendOptions good = options_;
  options_.rank = 1;
  EXPECT_TRUE(absl::StrContains(Create("gloo").message(), "rank 1 is none of 0 to 0"));
  options_ = good;
  options_.world_size = 0;
  EXPECT_TRUE(absl::StrContains(Create("gloo").message(), "world size 0"));
  options_ = good;
  options_.store = nullptr;
  EXPECT_TRUE(absl::IsInvalidArgument(Create("gloo")));
  options_ = good;
  options_.device = nullptr;
  EXPECT_TRUE(absl::IsInvalidArgument(Create("gloo")));
  options_ = good;
  options_.timeout = absl::ZeroDuration();
  EXPECT_TRUE(absl::StrContains(Create("gloo").message(), "timeout 0"));
}

}  // namespace
}  // namespace zeroshard::comm
