// What a launcher has told this process: its rank, the world size, and where it is on its host.
//
// Read in this order; the first that started this process speaks:
//   1. RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE: torchrun, and this project's own launcher
//   2. OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE: Open MPI's mpirun
//   3. PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS: MPICH's and Intel's mpirun
//   4. SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE: srun. A batch script and an interactive shell have these too and are no rank;
//      a process that srun started has SLURM_STEP_ID of an ordinary step besides.
// Launchers may be nested (torchrun under srun): the inner one speaks. What cannot be nested is a contradiction, and an error.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(LaunchEnvironment launch, ReadLaunchEnvironment(ProcessEnvironment));
//   if (!launch.launched()) StartRanksOurselves();
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace zeroshard::comm {

enum class Launcher { kNone, kTorchrun, kOpenMpi, kPmi, kSlurm };

// For people: "no launcher", "torchrun (RANK, WORLD_SIZE)", "Open MPI's mpirun", "a PMI launcher (mpirun)", "srun".
std::string_view Name(Launcher launcher);

struct LaunchEnvironment {
  Launcher launcher = Launcher::kNone;
  int rank = 0;
  int world_size = 1;
  // Which of the ranks on this host, and how many those are; where the launcher does not say: none.
  std::optional<int> local_rank;
  std::optional<int> local_world_size;
  // MASTER_ADDR and MASTER_PORT, whoever set them; empty and 0 where they are not set.
  std::string master_address;
  int master_port = 0;
  // torchrun's agent holds master_port itself (TORCHELASTIC_USE_AGENT_STORE=True).
  bool agent_holds_master_port = false;
  // A name that all ranks of this job share and other jobs do not, from the launcher; empty where it gives none.
  std::string job_id;
  // Slurm's list of the step's hosts, compressed ("node[1-4]"); empty elsewhere.
  std::string slurm_node_list;

  bool launched() const { return launcher != Launcher::kNone; }
  // Whether all ranks are known to be on this host.
  bool single_host() const { return world_size == 1 || local_world_size == world_size; }
};

// The value of a variable, or nothing where it is not set.
using EnvironmentLookup = absl::FunctionRef<std::optional<std::string>(const char* name)>;

// The process's own environment.
std::optional<std::string> ProcessEnvironment(const char* name);

// Errors: kInvalidArgument a value that is not a number or out of range, a variable that lacks its partner, launchers that
// contradict each other: each with the variables' names and values.
absl::StatusOr<LaunchEnvironment> ReadLaunchEnvironment(EnvironmentLookup lookup);

// The folder under which small files of this user's lie: $XDG_RUNTIME_DIR, of what concerns this host alone; else $XDG_CACHE_HOME or
// ~/.cache, which hosts may share. Empty where the environment names none.
std::string UserFolder(EnvironmentLookup lookup, bool this_host_alone);

}  // namespace zeroshard::comm
