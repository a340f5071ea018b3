#include "zeroshard/comm/launch_environment.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// The variables in which one launcher tells a process its place. Null where it has none.
struct Family {
  Launcher launcher;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

constexpr Family kTorchrunFamily = {Launcher::kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Family kOuterFamilies[] = {
    {Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::kPmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::kSlurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
};

// Steps that srun did not start number from here: 4294967290 an interactive shell, 4294967291 a batch script, ...
constexpr uint32_t kFirstSpecialSlurmStep = 0xfffffff0;

class Reader {
 public:
  explicit Reader(EnvironmentLookup lookup) : lookup_(lookup) {}

  // The variable's text; a variable that is set and empty is as good as not set.
  std::optional<std::string> Text(const char* name) const {
    if (name == nullptr) return std::nullopt;
    std::optional<std::string> value = lookup_(name);
    if (value.has_value() && value->empty()) value.reset();
    return value;
  }

  // The variable as a number in [least, most], or nothing where it is not set.
  absl::StatusOr<std::optional<int>> Number(const char* name, int least, int most) const {
    const std::optional<std::string> text = Text(name);
    if (!text.has_value()) return std::optional<int>();
    int value = 0;
    if (!absl::SimpleAtoi(*text, &value) || value < least || value > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("environment: ", name, "=", *text, " is not a number from ", least, " to ", most));
    }
    return std::optional<int>(value);
  }

  // Slurm's variables are in batch scripts and shells too: only an ordinary step has ranks.
  bool InSlurmStep() const {
    const std::optional<std::string> step = Text("SLURM_STEP_ID");
    uint32_t id = 0;
    return step.has_value() && absl::SimpleAtoi(*step, &id) && id < kFirstSpecialSlurmStep;
  }

  std::string Said(const char* name) const { return absl::StrCat(name, "=", Text(name).value_or("(not set)")); }

 private:
  EnvironmentLookup lookup_;
};

absl::Status Contradiction(const Reader& reader, const char* a, const char* b, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("environment: ", reader.Said(a), " and ", reader.Said(b), ": ", std::string(why)));
}

constexpr int kMostRanks = std::numeric_limits<int>::max();

// The place that `family` tells; none where it does not tell one.
absl::StatusOr<std::optional<LaunchEnvironment>> ReadPlace(const Reader& reader, const Family& family) {
  ZS_ASSIGN_OR_RETURN(const std::optional<int> rank, reader.Number(family.rank, 0, kMostRanks - 1));
  ZS_ASSIGN_OR_RETURN(const std::optional<int> world, reader.Number(family.world_size, 1, kMostRanks));
  if (!rank.has_value() && !world.has_value()) return std::optional<LaunchEnvironment>();
  if (!rank.has_value() || !world.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: ", reader.Said(rank.has_value() ? family.rank : family.world_size), ", but ",
                     rank.has_value() ? family.world_size : family.rank, " is not set; a launcher sets both, or neither"));
  }
  if (*rank >= *world)
    return Contradiction(reader, family.rank, family.world_size, "ranks count from 0 up to the world size");
  LaunchEnvironment place;
  place.launcher = family.launcher;
  place.rank = *rank;
  place.world_size = *world;
  ZS_ASSIGN_OR_RETURN(place.local_rank, reader.Number(family.local_rank, 0, kMostRanks - 1));
  ZS_ASSIGN_OR_RETURN(place.local_world_size, reader.Number(family.local_world_size, 1, kMostRanks));
  if (place.local_world_size.has_value()) {
    if (*place.local_world_size > *world) {
      return Contradiction(reader, family.local_world_size, family.world_size, "a host has no more ranks than the job");
    }
    if (place.local_rank.has_value() && *place.local_rank >= *place.local_world_size) {
      return Contradiction(reader, family.local_rank, family.local_world_size,
                           "local ranks count from 0 up to the number of ranks on the host");
    }
  }
  if (place.local_rank.has_value() && *place.local_rank >= *world) {
    return Contradiction(reader, family.local_rank, family.world_size, "local ranks count from 0 up to the world size");
  }
  return std::optional<LaunchEnvironment>(place);
}

// What an MPI launcher or srun tells, whether or not RANK and WORLD_SIZE are there too; none where none started this process.
struct Outer {
  const Family* family = nullptr;
  std::optional<LaunchEnvironment> place;
};

// How many ranks srun started on this host: "2(x3),1" is 2 on each of the first three hosts, 1 on the fourth.
std::optional<int> SlurmLocalWorldSize(const Reader& reader, int world_size) {
  if (reader.Text("SLURM_STEP_NUM_NODES") == "1") return world_size;
  int node = 0;
  if (!absl::SimpleAtoi(reader.Text("SLURM_NODEID").value_or(""), &node)) return std::nullopt;
  const std::string list = reader.Text("SLURM_STEP_TASKS_PER_NODE").value_or("");
  for (const absl::string_view entry : absl::StrSplit(list, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits("(x", 1));
    int tasks = 0, nodes = 1;
    if (!absl::SimpleAtoi(parts.first, &tasks) || tasks < 1 || tasks > world_size) return std::nullopt;
    if (!parts.second.empty() && !absl::SimpleAtoi(absl::StripSuffix(parts.second, ")"), &nodes)) return std::nullopt;
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return std::nullopt;
}

absl::StatusOr<Outer> ReadOuter(const Reader& reader) {
  for (const Family& family : kOuterFamilies) {
    if (family.launcher == Launcher::kSlurm && !reader.InSlurmStep()) continue;
    ZS_ASSIGN_OR_RETURN(std::optional<LaunchEnvironment> place, ReadPlace(reader, family));
    if (!place.has_value()) continue;
    if (family.launcher == Launcher::kSlurm) place->local_world_size = SlurmLocalWorldSize(reader, place->world_size);
    return Outer{&family, std::move(place)};
  }
  return Outer{};
}

// RANK and WORLD_SIZE beside an outer launcher of several ranks: each outer process starts at least one rank, or it is the same.
absl::Status CheckNesting(const Reader& reader, const LaunchEnvironment& inner, const Outer& outer) {
  if (!outer.place.has_value() || outer.place->world_size == 1) return absl::OkStatus();
  if (reader.Text("TORCHELASTIC_RUN_ID").has_value()) return absl::OkStatus();
  if (inner.world_size < outer.place->world_size) {
    return Contradiction(
        reader, kTorchrunFamily.world_size, outer.family->world_size,
        "which is the world size? unset WORLD_SIZE and RANK, or start one rank only from the outer launcher");
  }
  if (inner.world_size == outer.place->world_size && inner.rank != outer.place->rank) {
    return Contradiction(reader, kTorchrunFamily.rank, outer.family->rank, "which is the rank? unset RANK and WORLD_SIZE");
  }
  return absl::OkStatus();
}

// Scripts set one of RANK and WORLD_SIZE beside a launcher's own variables: harmless where the two agree.
absl::Status CheckHalfPlace(const Reader& reader, const Outer& outer) {
  ZS_ASSIGN_OR_RETURN(const std::optional<int> rank, reader.Number(kTorchrunFamily.rank, 0, kMostRanks - 1));
  if (rank.has_value() && *rank != outer.place->rank) {
    return Contradiction(reader, kTorchrunFamily.rank, outer.family->rank, "which is the rank? unset RANK");
  }
  ZS_ASSIGN_OR_RETURN(const std::optional<int> world, reader.Number(kTorchrunFamily.world_size, 1, kMostRanks));
  if (world.has_value() && *world != outer.place->world_size) {
    return Contradiction(reader, kTorchrunFamily.world_size, outer.family->world_size,
                         "which is the world size? unset WORLD_SIZE");
  }
  return absl::OkStatus();
}

absl::StatusOr<LaunchEnvironment> Place(const Reader& reader) {
  ZS_ASSIGN_OR_RETURN(const Outer outer, ReadOuter(reader));
  const bool both = reader.Text(kTorchrunFamily.rank).has_value() && reader.Text(kTorchrunFamily.world_size).has_value();
  if (outer.place.has_value() && !both) {
    ZS_RETURN_IF_ERROR(CheckHalfPlace(reader, outer));
    return *outer.place;
  }
  ZS_ASSIGN_OR_RETURN(const std::optional<LaunchEnvironment> inner, ReadPlace(reader, kTorchrunFamily));
  if (!inner.has_value()) return LaunchEnvironment();
  ZS_RETURN_IF_ERROR(CheckNesting(reader, *inner, outer));
  return *inner;
}

// The first of the job's names that is set, for a launcher's own job.
std::string JobId(const Reader& reader, Launcher launcher) {
  switch (launcher) {
    case Launcher::kTorchrun:
      return reader.Text("TORCHELASTIC_RUN_ID").value_or("");
    case Launcher::kOpenMpi:
      return reader.Text("PMIX_NAMESPACE").value_or(reader.Text("OMPI_MCA_ess_base_jobid").value_or(""));
    case Launcher::kSlurm:
      return absl::StrCat(reader.Text("SLURM_JOB_ID").value_or("0"), ".", reader.Text("SLURM_STEP_ID").value_or("0"));
    case Launcher::kPmi:
    case Launcher::kNone:
      break;
  }
  return "";
}

}  // namespace

std::string_view Name(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "no launcher";
    case Launcher::kTorchrun:
      return "torchrun (RANK, WORLD_SIZE)";
    case Launcher::kOpenMpi:
      return "Open MPI's mpirun";
    case Launcher::kPmi:
      return "a PMI launcher (mpirun)";
    case Launcher::kSlurm:
      return "srun";
  }
  return "";
}

std::optional<std::string> ProcessEnvironment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

absl::StatusOr<LaunchEnvironment> ReadLaunchEnvironment(EnvironmentLookup lookup) {
  const Reader reader(lookup);
  ZS_ASSIGN_OR_RETURN(LaunchEnvironment launch, Place(reader));
  launch.master_address = reader.Text("MASTER_ADDR").value_or("");
  ZS_ASSIGN_OR_RETURN(const std::optional<int> port, reader.Number("MASTER_PORT", 1, 65535));
  launch.master_port = port.value_or(0);
  launch.agent_holds_master_port = reader.Text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  launch.job_id = JobId(reader, launch.launcher);
  if (reader.InSlurmStep()) {
    // The step may run on some of the job's hosts alone.
    launch.slurm_node_list = reader.Text("SLURM_STEP_NODELIST").value_or(reader.Text("SLURM_JOB_NODELIST").value_or(""));
  }
  return launch;
}

std::string UserFolder(EnvironmentLookup lookup, bool this_host_alone) {
  const auto folder = [&](const char* name) {
    const std::string value = lookup(name).value_or("");
    return value.starts_with("/") ? value : "";
  };
  std::string root = this_host_alone ? folder("XDG_RUNTIME_DIR") : "";
  if (root.empty()) root = folder("XDG_CACHE_HOME");
  if (root.empty() && !folder("HOME").empty()) root = absl::StrCat(folder("HOME"), "/.cache");
  return root;
}

}  // namespace zeroshard::comm
