#include "zeroshard/comm/store_default.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

using Variables = std::map<std::string, std::string>;

std::string Default(const Variables& variables, int parent = 7, const PortRange& ports = {}) {
  const auto launch = ReadLaunchEnvironment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
  if (!launch.ok()) return std::string(launch.status().message());
  const auto store = DefaultStore(*launch, parent, ports);
  return store.ok() ? *store : std::string(store.status().message());
}

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kTorchrun = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "prterun-n-41@1"}};
const Variables kMpich = {{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "3"}};
const Variables kSrun = {{"SLURM_PROCID", "3"},
                         {"SLURM_NTASKS", "4"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_STEP_NODELIST", "n[3-4]"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                         {"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "0"}};

TEST(DefaultStore, IsTheMasterOfTorchrunAndOfOurLauncher) {
  EXPECT_EQ(Default(kTorchrun), "tcp:node1:29500");
  EXPECT_EQ(Default(With(kTorchrun, {{"MASTER_ADDR", "fd00::1"}})), "tcp:[fd00::1]:29500");
  EXPECT_EQ(Default(With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})), "tcp:node1:29501");
  EXPECT_EQ(Default(With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})), "tcp:node1:29500");
  EXPECT_THAT(Default(With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}})),
              HasSubstr("MASTER_PORT=65535"));
  EXPECT_THAT(Default(With(kTorchrun, {{"MASTER_ADDR", ""}})),
              AllOf(HasSubstr("MASTER_ADDR is not"), HasSubstr("--store=tcp:")));
  EXPECT_THAT(Default(With(kTorchrun, {{"MASTER_PORT", ""}})), HasSubstr("MASTER_PORT is not"));
}

TEST(DefaultStore, IsSlurmsFirstHostAtAPortOfTheJob) {
  EXPECT_THAT(Default(kSrun), MatchesRegex("tcp:n3:[123][0-9]{4}"));
  EXPECT_EQ(Default(kSrun), Default(With(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}})));
  EXPECT_NE(Default(kSrun), Default(With(kSrun, {{"SLURM_JOB_ID", "78"}})));
  EXPECT_NE(Default(kSrun), Default(With(kSrun, {{"SLURM_STEP_ID", "1"}})));
  EXPECT_THAT(Default(With(kSrun, {{"SLURM_STEP_NUM_NODES", "1"}})), MatchesRegex("tcp:127.0.0.1:[123][0-9]{4}"));
  EXPECT_EQ(Default(With(kSrun, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1234"}})), "tcp:h:1234");
}

TEST(DefaultStore, IsLoopbackUnderMpirunOnOneHost) {
  EXPECT_THAT(Default(kOpenMpi), MatchesRegex("tcp:127.0.0.1:[123][0-9]{4}"));
  EXPECT_EQ(Default(kOpenMpi, 7), Default(kOpenMpi, 8));
  EXPECT_NE(Default(kOpenMpi), Default(With(kOpenMpi, {{"PMIX_NAMESPACE", "prterun-n-42@1"}})));
  EXPECT_THAT(Default(kMpich), MatchesRegex("tcp:127.0.0.1:[123][0-9]{4}"));
  EXPECT_NE(Default(kMpich, 7), Default(kMpich, 8));
  for (const char* local : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    const Variables& one = std::string(local)[0] == 'O' ? kOpenMpi : kMpich;
    const std::string rank = std::string(local)[0] == 'O' ? "OMPI_COMM_WORLD_LOCAL_RANK" : "MPI_LOCALRANKID";
    EXPECT_THAT(Default(With(one, {{local, "1"}, {rank, "0"}})), HasSubstr("give --store=tcp:HOST:PORT"));
  }
}

TEST(DefaultStore, TakesAPortOfTheRangeWhereOneIsGiven) {
  for (const Variables& launcher : {kSrun, kOpenMpi, kMpich}) {
    EXPECT_THAT(Default(launcher, 7, {.first = 40010, .last = 40019}), MatchesRegex("tcp:[^:]*:4001[0-9]"));
  }
  EXPECT_EQ(Default(kTorchrun, 7, {.first = 40010, .last = 40019}), "tcp:node1:29500");  // torchrun says
}

TEST(FirstHost, ReadsSlurmsLists) {
  EXPECT_EQ(FirstHost("node1"), "node1");
  EXPECT_EQ(FirstHost("node[3-4]"), "node3");
  EXPECT_EQ(FirstHost("node[003-010,12],x1"), "node003");
  EXPECT_EQ(FirstHost("gpu-3,gpu-4"), "gpu-3");
  EXPECT_EQ(FirstHost("a[1-2]b[3,4]-ib"), "a1b3-ib");
  EXPECT_EQ(FirstHost(""), "");
  EXPECT_EQ(FirstHost("node[3"), "");
}

}  // namespace
}  // namespace zeroshard::comm
