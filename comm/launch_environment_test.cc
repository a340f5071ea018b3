#include "zeroshard/comm/launch_environment.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

absl::StatusOr<LaunchEnvironment> Read(const Variables& variables) {
  return ReadLaunchEnvironment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

void ExpectPlace(const Variables& variables, Launcher launcher, int rank, int world_size, std::optional<int> local_rank,
                 std::optional<int> local_world_size) {
  const auto launch = Read(variables);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->launcher, launcher);
  EXPECT_EQ(launch->rank, rank);
  EXPECT_EQ(launch->world_size, world_size);
  EXPECT_EQ(launch->local_rank, local_rank);
  EXPECT_EQ(launch->local_world_size, local_world_size);
}

template <class... Parts>
void ExpectRefused(const Variables& variables, Parts... parts) {
  const auto launch = Read(variables);
  ASSERT_EQ(launch.status().code(), absl::StatusCode::kInvalidArgument) << launch.status();
  EXPECT_THAT(std::string(launch.status().message()), AllOf(HasSubstr(parts)...));
}

const Variables kTorchrun = {
    {"RANK", "5"},           {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"},
    {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kMpich = {{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "3"}};
const Variables kSrun = {{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},
                         {"SLURM_LOCALID", "1"}, {"SLURM_JOB_NODELIST", "n[1-2]"},
                         {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}};

TEST(LaunchEnvironment, ReadsEachLauncher) {
  ExpectPlace({}, Launcher::kNone, 0, 1, std::nullopt, std::nullopt);
  ExpectPlace(kTorchrun, Launcher::kTorchrun, 5, 8, 1, 4);
  ExpectPlace(kOpenMpi, Launcher::kOpenMpi, 1, 2, 1, 2);
  ExpectPlace(kMpich, Launcher::kPmi, 0, 3, 0, 3);
  ExpectPlace(kSrun, Launcher::kSlurm, 3, 4, 1, std::nullopt);
  EXPECT_EQ(Read(kTorchrun)->master_address, "node1");
  EXPECT_EQ(Read(kTorchrun)->master_port, 29500);
  EXPECT_FALSE(Read(kTorchrun)->agent_holds_master_port);
  EXPECT_TRUE(Read(With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->agent_holds_master_port);
  EXPECT_EQ(Read(kSrun)->job_id, "77.0");
  EXPECT_EQ(Read(kSrun)->slurm_node_list, "n[1-2]");
}

TEST(LaunchEnvironment, KnowsWhenAllRanksAreHere) {
  EXPECT_TRUE(Read({})->single_host());
  EXPECT_FALSE(Read(kTorchrun)->single_host());
  EXPECT_TRUE(Read(kOpenMpi)->single_host());
  EXPECT_FALSE(Read(kSrun)->single_host());
}

TEST(LaunchEnvironment, IsNotFooledByABatchScriptOrAnInteractiveShell) {
  Variables batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  ExpectPlace(batch, Launcher::kNone, 0, 1, std::nullopt, std::nullopt);
  ExpectPlace(With(batch, {{"SLURM_STEP_ID", "4294967291"}}), Launcher::kNone, 0, 1, std::nullopt, std::nullopt);
  ExpectPlace(With(batch, {{"SLURM_STEP_ID", "4294967290"}}), Launcher::kNone, 0, 1, std::nullopt, std::nullopt);
  // Not even by values that make no sense there.
  ExpectPlace(With(batch, {{"SLURM_NTASKS", "many"}}), Launcher::kNone, 0, 1, std::nullopt, std::nullopt);
  ExpectPlace(With(batch, kOpenMpi), Launcher::kOpenMpi, 1, 2, 1, 2);
}

TEST(LaunchEnvironment, NestedLaunchersLetTheInnerSpeak) {
  // torchrun on each of two nodes, started by srun or mpirun.
  ExpectPlace(With(With(kSrun, {{"SLURM_NTASKS", "4"}}), kTorchrun), Launcher::kTorchrun, 5, 8, 1, 4);
  ExpectPlace(With(kOpenMpi, kTorchrun), Launcher::kTorchrun, 5, 8, 1, 4);
  // A launcher of one process that starts ranks itself.
  ExpectPlace(With(kTorchrun, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), Launcher::kTorchrun, 5, 8, 1, 4);
  // mpirun inside a step of Slurm.
  ExpectPlace(With(kSrun, kOpenMpi), Launcher::kOpenMpi, 1, 2, 1, 2);
}

TEST(LaunchEnvironment, TakesHalfAPlaceThatAgrees) {
  ExpectPlace(With(kSrun, {{"WORLD_SIZE", "4"}, {"MASTER_ADDR", "n1"}}), Launcher::kSlurm, 3, 4, 1, std::nullopt);
  ExpectRefused(With(kSrun, {{"WORLD_SIZE", "2"}}), "WORLD_SIZE=2", "SLURM_NTASKS=4");
  ExpectRefused(With(kOpenMpi, {{"RANK", "0"}}), "RANK=0", "OMPI_COMM_WORLD_RANK=1");
}

TEST(LaunchEnvironment, RefusesHalfAPlace) {
  ExpectRefused({{"RANK", "0"}}, "RANK=0", "WORLD_SIZE is not set");
  ExpectRefused({{"WORLD_SIZE", "2"}}, "WORLD_SIZE=2", "RANK is not set");
  ExpectRefused({{"PMI_SIZE", "2"}}, "PMI_SIZE=2", "PMI_RANK is not set");
  ExpectRefused({{"RANK", "0"}, {"WORLD_SIZE", ""}}, "WORLD_SIZE is not set");
}

TEST(LaunchEnvironment, RefusesWhatIsNoNumberOrOutOfRange) {
  for (const char* rank : {"x", "-1", "1.5", "0x1", "99999999999", "2147483647"}) {
    ExpectRefused({{"RANK", rank}, {"WORLD_SIZE", "2"}}, std::string("RANK=") + rank);
  }
  ExpectRefused({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2", "WORLD_SIZE=2");
  ExpectRefused({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE=0");
  ExpectRefused(With(kTorchrun, {{"LOCAL_RANK", "4"}}), "LOCAL_RANK=4", "LOCAL_WORLD_SIZE=4");
  ExpectRefused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}, "LOCAL_RANK=2", "WORLD_SIZE=2");
  ExpectRefused(With(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), "LOCAL_WORLD_SIZE=9", "WORLD_SIZE=8");
  ExpectRefused(With(kTorchrun, {{"MASTER_PORT", "65536"}}), "MASTER_PORT=65536");
  ExpectRefused({{"MASTER_PORT", "0"}}, "MASTER_PORT=0");
}

TEST(LaunchEnvironment, RefusesLaunchersThatContradictEachOther) {
  // Each rank of mpirun would train alone.
  ExpectRefused(With(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "WORLD_SIZE=1", "OMPI_COMM_WORLD_SIZE=2");
  ExpectRefused(With(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "RANK=0", "OMPI_COMM_WORLD_RANK=1");
}

}  // namespace
}  // namespace zeroshard::comm
