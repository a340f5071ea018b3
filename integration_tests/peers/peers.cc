// Our collectives beside their peers, in turns, in one run: a table as JSON Lines, next to the goals.
//
// Example: bazel run //integration_tests/peers -- --peers=FOLDER > table.jsonl
//
// FOLDER holds shmar.cc, the mapped-memory prototype, and mpib.cc, which is built for each MPI whose headers are installed (Debian's
// libopenmpi-dev, libmpich-dev). Goals whose peer is not there are not judged; what needs network namespaces is left out, with the
// reason, where they cannot be made.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/hosts/network.h"
#include "zeroshard/integration_tests/peers/shell.h"
#include "zeroshard/integration_tests/peers/table.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/flags/user_path.h"

namespace zeroshard::integration_tests {
namespace {

using Json = nlohmann::json;
using Samples = std::map<std::string, double>;  // by "reduce_scatter 67108864"

constexpr int64_t kScalar = 4;

// Bytes of what is measured; the goals are those of the defaults.
struct Sizes {
  int64_t large = int64_t{64} << 20;
  int64_t middle = int64_t{1} << 20;
};
const char* const kOps[] = {"reduce_scatter", "all_gather", "all_reduce"};
// Gives everybody the memory that it freed again, without a page fault each time.
constexpr char kRetention[] =
    "MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=268435456 ";
constexpr char kAsRoot[] = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ";

std::string Key(const std::string& op, int64_t bytes) { return absl::StrCat(op, " ", bytes); }

// Ours: `flags` besides what is measured, `before` the program in the command.
Samples RunOurs(const std::string& flags, const std::string& before = "") {
  Samples samples;
  for (const std::string& line : LinesOf(OutputOf(absl::StrCat(kRetention, before, " tools/comm_bench --json=- ", flags)))) {
    const Json row = Json::parse(line, nullptr, false);
    if (row.is_object() && row["verified"] == true) samples[Key(row["op"], row["bytes"])] = row["us_median"];
  }
  return samples;
}

// "RS zero-copy   S=67108864  us=7123.12 ...", "barrier 0.190 us".
Samples RunPrototype(const std::string& program) {
  const std::map<std::string, std::string> ops = {{"RS zero-copy", "reduce_scatter"},
                                                  {"AG zero-copy", "all_gather"},
                                                  {"AR zero-copy", "all_reduce"},
                                                  {"RS copy-in", "reduce_scatter heap"},
                                                  {"AR copy-in", "all_reduce heap"}};
  static const std::regex row("(.. [a-z-]+) +S=([0-9]+) +us=([0-9.]+) .*"), barrier("barrier ([0-9.]+) us");
  Samples samples;
  for (const std::string& line : LinesOf(OutputOf(program))) {
    std::smatch found;
    if (std::regex_match(line, found, barrier)) samples[Key("barrier", 0)] = std::stod(found[1]);
    if (!std::regex_match(line, found, row) || !ops.contains(found[1])) continue;
    samples[Key(ops.at(found[1]), std::stoll(found[2]))] = std::stod(found[3]);
  }
  return samples;
}

// "RES ar n=2 bytes=4 us=0.44 algbw=..."
Samples RunMpi(const std::string& command) {
  const std::map<std::string, std::string> ops = {
      {"ar", "all_reduce"}, {"rs", "reduce_scatter"}, {"ag", "all_gather"}, {"bar", "barrier"}};
  static const std::regex row("RES ([a-z]+) n=[0-9]+ bytes=([0-9]+) us=([0-9.]+) .*");
  Samples samples;
  for (const std::string& line : LinesOf(OutputOf(command))) {
    std::smatch found;
    if (!std::regex_match(line, found, row) || !ops.contains(found[1])) continue;
    const std::string op = ops.at(found[1]);
    samples[Key(op, op == "barrier" ? 0 : std::stoll(found[2]))] = std::stod(found[3]);
  }
  return samples;
}

// The peers' programs, built for this run.
class Programs {
 public:
  explicit Programs(const std::string& folder) {
    std::string pattern = (std::filesystem::temp_directory_path() / "zeroshard-peers.XXXXXX").string();
    if (folder.empty() || mkdtemp(pattern.data()) == nullptr) return;
    made_ = pattern;
    prototype_ = Built("g++ -std=c++17 -O2 -pthread", folder + "/shmar.cc", "shmar");
    open_mpi_ = Built("mpicxx.openmpi -O2", folder + "/mpib.cc", "mpib");
    mpich_ = Built("mpicxx.mpich -O2", folder + "/mpib.cc", "mpib_mpich");
  }
  ~Programs() {
    std::error_code ignored;
    if (!made_.empty()) std::filesystem::remove_all(made_, ignored);
  }
  const std::string& prototype() const { return prototype_; }  // empty where there is none
  const std::string& open_mpi() const { return open_mpi_; }
  const std::string& mpich() const { return mpich_; }

 private:
  std::string Built(const std::string& compiler, const std::string& source, const std::string& name) const {
    const std::string program = absl::StrCat(made_, "/", name);
    return Succeeds(absl::StrCat(compiler, " ", source, " -o ", program)) ? program : "";
  }
  std::string made_, prototype_, open_mpi_, mpich_;
};

std::string SizeName(int64_t bytes) {
  return bytes >= 1 << 20 ? absl::StrCat(bytes >> 20, " MiB") : absl::StrCat(bytes, " B");
}

// Takes a sample of `from` where it has one under `key`.
void Take(Row& row, const std::string& column, const Samples& from, const std::string& key) {
  const auto found = from.find(key);
  if (found != from.end()) row.us[column].push_back(found->second);
}

void Print(const Row& row) { std::cout << RowJson(row) << '\n' << std::flush; }

// Two ranks of one host, over shared memory.
void CompareOnOneHost(const Programs& programs, const Sizes& sizes, int64_t rounds) {
  std::vector<Row> rows;
  std::vector<std::string> keys;
  for (const char* memory : {"registered", "heap"}) {
    for (const bool large : {true, false}) {
      const int64_t bytes = large ? sizes.large : sizes.middle;
      for (const std::string op : kOps) {
        Row row{.name = absl::StrCat(op, " ", SizeName(bytes)), .memory = memory};
        if (row.memory == "registered") row.goals = {{"prototype", large ? 1.2 : 2.0}, {"mpi", large ? 0.4 : 0.5}};
        rows.push_back(row);
        keys.push_back(Key(op, bytes));
      }
    }
  }
  Row scalar{.name = "all_reduce 4 B", .memory = "registered", .goals = {{"open_mpi", 1.0}}};
  Row barrier{.name = "barrier", .memory = "", .goals = {{"open_mpi", 1.0}}};
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string flags =
        absl::StrCat(" --backend=ucx --nproc=2 --sizes=", kScalar, ",", sizes.middle, ",", sizes.large);
    const Samples prototype = programs.prototype().empty() ? Samples() : RunPrototype(programs.prototype());
    const Samples ours = RunOurs("--ops=reduce_scatter,all_gather,all_reduce,barrier --memory=registered" + flags);
    const Samples heap = RunOurs("--ops=reduce_scatter,all_gather,all_reduce --memory=heap" + flags);
    const Samples open_mpi = programs.open_mpi().empty()
                                 ? Samples()
                                 : RunMpi(absl::StrCat(kRetention, kAsRoot, "mpirun.openmpi -np 2 --bind-to core ",
                                                       programs.open_mpi(), " ar,rs,ag,bar"));
    const Samples mpich = programs.mpich().empty()
                              ? Samples()
                              : RunMpi(absl::StrCat(kRetention, "mpirun.mpich -np 2 ", programs.mpich(), " ar,rs,ag,bar"));
    const auto take_all = [&](Row& row, const std::string& key) {
      Take(row, "ours", row.memory == "heap" ? heap : ours, key);
      const size_t space = key.find(' ');
      Take(row, "prototype", prototype, row.memory == "heap" ? key.substr(0, space) + " heap" + key.substr(space) : key);
      Take(row, "open_mpi", open_mpi, key);
      Take(row, "mpich", mpich, key);
    };
    for (size_t i = 0; i < rows.size(); ++i) take_all(rows[i], keys[i]);
    take_all(scalar, Key("all_reduce", kScalar));
    take_all(barrier, Key("barrier", 0));
  }
  for (const Row& row : rows) Print(row);
  Print(scalar);
  Print(barrier);
}

// Two ranks in two network namespaces, over TCP: a bare link, and one of a gigabit.
void CompareOnALink(const Programs& programs, const Sizes& sizes, int64_t rounds, const std::string& rate) {
  const Network network(2);
  const std::string suffix = rate.empty() ? " over TCP" : absl::StrCat(" over TCP of ", rate);
  std::vector<Row> rows;
  for (const std::string op : kOps) {
    rows.push_back({.name = absl::StrCat(op, " ", SizeName(sizes.large), suffix),
                    .memory = "registered",
                    .us = {},
                    .goals = {{"floor", (op == "all_reduce" ? 2 : 1) / 0.85}, {"open_mpi", 1.0}},
                    .left_out = network.why_not()});
  }
  const bool there = network.why_not().empty() && (rate.empty() || network.Shape(rate));
  for (int64_t round = 0; there && round < rounds; ++round) {
    const auto copy = [&](int host, const std::string& side) {
      return absl::StrCat(network.On(host), " integration_tests/peers/link_copy ", side, " 10.77.0.1 5001 ",
                          sizes.large / 2);
    };
    const std::string floor = OutputOf(absl::StrCat(copy(1, "listen"), " >/dev/null & ", copy(2, "connect"), "; wait"));
    const Samples ours = RunOurs(absl::StrCat("--backend=ucx --nproc=1 --hosts=10.77.0.1,10.77.0.2 --ssh=", network.Ssh(),
                                              " --sizes=", sizes.large, " --ops=reduce_scatter,all_gather,all_reduce"),
                                 "UCX_TLS=tcp");
    const Samples open_mpi =
        programs.open_mpi().empty()
            ? Samples()
            : RunMpi(absl::StrCat(kRetention, kAsRoot, network.On(1), " mpirun.openmpi -np 2 -H 10.77.0.1,10.77.0.2",
                                  " --mca plm_rsh_agent ", network.Ssh(), " --mca pml ob1 --mca btl self,tcp",
                                  " --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 ", programs.open_mpi(),
                                  " ar,rs,ag"));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!floor.empty()) rows[i].us["floor"].push_back(std::stod(floor));
      Take(rows[i], "ours", ours, Key(kOps[i], sizes.large));
      Take(rows[i], "open_mpi", open_mpi, Key(kOps[i], sizes.large));
    }
  }
  for (const Row& row : rows) Print(row);
}

void CompareManyRanks(const Sizes& sizes, int64_t rounds) {
  Row row{.name = absl::StrCat("all_reduce ", SizeName(sizes.middle), ", 8 ranks"),
          .memory = "registered",
          .goals = {{"floor", 1.5}}};
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string floor = OutputOf(absl::StrCat("integration_tests/peers/mapped_loop 8 ", sizes.middle));
    if (!floor.empty()) row.us["floor"].push_back(std::stod(floor));
    Take(row, "ours", RunOurs(absl::StrCat("--backend=ucx --nproc=8 --ops=all_reduce --sizes=", sizes.middle)),
         Key("all_reduce", sizes.middle));
  }
  Print(row);
}

// From the command to the first step's line, of 8 ranks and a model of a million parameters.
void TimeTheStart(int64_t rounds) {
  Row row{.name = "start to first step, 8 ranks", .memory = "", .goals = {{"us", 2e6}}};
  std::string text = (std::filesystem::temp_directory_path() / "zeroshard-peers-text.XXXXXX").string();
  if (mkstemp(text.data()) < 0) return;
  std::ofstream(text) << std::string(100'000, 'a');
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string us =
        OutputOf(absl::StrCat("begin=$(date +%s%N); tools/train --backend=ucx --nproc=8 --stage=3 --layers=5 --heads=4 "
                              "--width=128 --context=64 --batch=1 "
                              "--threads=1 --steps=2 --sample=0 --data=",
                              text,
                              " 2>&1 >/dev/null | while read -r word rest; do if [ \"$word\" = step ]; then echo $((($(date "
                              "+%s%N) - begin) / 1000)); break; "
                              "fi; done"));
    if (!us.empty()) row.us["ours"].push_back(std::stod(us));
  }
  std::filesystem::remove(text);
  Print(row);
}

int Main(int argc, char** argv) {
  std::string folder, only;
  int64_t rounds = 5;
  Sizes sizes;
  tools::FlagSet flags("peers", "Measures our collectives beside their peers, in turns: JSON Lines, next to the goals.");
  flags.Text("peers", &folder,
             {.group = "MEASURED",
              .text = "A folder with shmar.cc and mpib.cc.",
              .example = "--peers=../shared/peers/collectives",
              .default_text = "none: ours, and our own floors, alone"});
  flags.Integer("rounds", &rounds, {.least = 1, .most = 1000},
                {.group = "MEASURED", .text = "How often each is run, in turns.", .example = "--rounds=9"});
  flags.Integer("large", &sizes.large, {.least = 1024, .most = int64_t{1} << 32},
                {.group = "MEASURED", .text = "The larger size.", .example = "--large=1048576", .unit = "bytes"});
  flags.Integer("middle", &sizes.middle, {.least = 64, .most = int64_t{1} << 32},
                {.group = "MEASURED", .text = "The smaller size.", .example = "--middle=65536", .unit = "bytes"});
  flags.Text("only", &only,
             {.group = "MEASURED",
              .text = "One part: host, link, ranks or start.",
              .example = "--only=host",
              .default_text = "all"});
  const auto parsed = flags.Parse(argc - 1, argv + 1);
  if (!parsed.ok() || flags.help_requested()) {
    std::cout << (parsed.ok() ? flags.Help() : absl::StrCat("error: ", parsed.status().message(), "\n"));
    return parsed.ok() ? 0 : 2;
  }
  const Programs programs(tools::UserPath(folder));
  if (programs.prototype().empty()) {
    std::cerr << "peers: no prototype and no MPI to hold ours against: "
              << (folder.empty() ? "--peers=FOLDER was not given" : "shmar.cc of " + folder + " could not be built") << '\n';
  }
  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  if (wanted("host")) CompareOnOneHost(programs, sizes, rounds);
  if (wanted("link")) CompareOnALink(programs, sizes, rounds, "");
  if (wanted("link")) CompareOnALink(programs, sizes, rounds, "1gbit");
  if (wanted("ranks")) CompareManyRanks(sizes, rounds);
  if (wanted("start")) TimeTheStart(rounds);
  return 0;
}

}  // namespace
}  // namespace zeroshard::integration_tests

int main(int argc, char** argv) { return zeroshard::integration_tests::Main(argc, argv); }
