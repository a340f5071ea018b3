// The comparison, for small sizes, with stand-ins for the peers, which say what they took.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr char kPrototype[] = R"(#include <cstdio>
#include <initializer_list>
int main() {
  for (const char* op : {"RS zero-copy", "AG zero-copy", "AR zero-copy", "RS copy-in", "AR copy-in"}) {
    for (const int bytes : {65536, 4096}) std::printf("%s   S=%d  us=%d.5 GBps=1\n", op, bytes, op[0] == 'R' ? 90000000 : 80000000);
  }
  std::printf("barrier 70000000.5 us\n");
})";

constexpr char kMpi[] = R"(#include <cstdio>
#include <initializer_list>
#include <cstring>
int main(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], "ar,rs,ag,bar") != 0) return 1;
  for (const char* op : {"ar", "rs", "ag"}) {
    for (const int bytes : {4, 4096, 65536}) std::printf("RES %s n=2 bytes=%d us=0.001 algbw=1\n", op, bytes);
  }
  std::printf("RES bar n=2 bytes=0 us=0.002 algbw=0\n");
})";

std::string Script(const std::string& path, const std::string& text) {
  WriteFile(path, "#!/bin/sh\n" + text);
  const std::string whole = ::testing::TempDir() + "/" + path;
  std::filesystem::permissions(whole, std::filesystem::perms::owner_all);
  return whole;
}

// The rows of one part, by "reduce_scatter 65536 B registered".
std::map<std::string, Json> Compare(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"--rounds=1", "--large=65536", "--middle=4096"};
  words.insert(words.end(), flags.begin(), flags.end());
  const ToolResult result =
      RunTool("integration_tests/peers/peers", words, {absl::StrCat("PATH=", ::testing::TempDir(), "/bin:/usr/bin:/bin")});
  EXPECT_EQ(result.code, 0) << result.errors;
  std::map<std::string, Json> rows;
  for (const absl::string_view line : absl::StrSplit(result.output, '\n', absl::SkipEmpty())) {
    const Json row = Json::parse(line, nullptr, false);
    EXPECT_TRUE(row.is_object()) << line;
    rows[row["row"].get<std::string>() + (row.contains("memory") ? " " + row["memory"].get<std::string>() : "")] = row;
  }
  return rows;
}

class Peers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* folder : {"/bin", "/peers", "/none"}) std::filesystem::create_directory(::testing::TempDir() + folder);
    WriteFile("peers/shmar.cc", kPrototype);
    WriteFile("peers/mpib.cc", kMpi);
    for (const char* compiler : {"bin/mpicxx.openmpi", "bin/mpicxx.mpich"}) Script(compiler, "exec g++ \"$@\"\n");
    // The last words are the program and what it measures.
    for (const char* launcher : {"bin/mpirun.openmpi", "bin/mpirun.mpich"}) {
      Script(launcher, "while [ $# -gt 2 ]; do shift; done; exec \"$@\"\n");
    }
  }
};

TEST_F(Peers, AreHeldBesideOursForEveryOperationAndSize) {
  std::map<std::string, Json> rows = Compare({"--only=host", "--peers=" + ::testing::TempDir() + "/peers"});
  for (const std::string op : {"reduce_scatter", "all_gather", "all_reduce"}) {
    for (const std::string size : {" 65536 B", " 4096 B"}) {
      Json& row = rows[op + size + " registered"];
      EXPECT_GT(row["ours_us"]["least"], 0) << row;
      EXPECT_EQ(row["prototype_us"]["least"], op == "reduce_scatter" ? 90000000.5 : 80000000.5) << row;
      EXPECT_EQ(row["open_mpi_us"]["least"], 0.001) << row;
      EXPECT_EQ(row["mpich_us"]["least"], 0.001) << row;
      ASSERT_EQ(row["goals"].size(), 2U) << row;
      EXPECT_EQ(row["goals"][0]["met"], true) << row;   // of a prototype that takes a minute
      EXPECT_EQ(row["goals"][1]["met"], false) << row;  // of an MPI that takes a nanosecond
      Json& heap = rows[op + size + " heap"];
      EXPECT_GT(heap["ours_us"]["least"], 0) << heap;
      EXPECT_EQ(heap.contains("prototype_us"), op != "all_gather") << heap;
    }
  }
  EXPECT_GT(rows["all_reduce 4 B registered"]["ours_us"]["least"], 0);
  EXPECT_EQ(rows["barrier"]["prototype_us"]["least"], 70000000.5);
  EXPECT_EQ(rows["barrier"]["open_mpi_us"]["least"], 0.002);
}

TEST_F(Peers, ThatAreNotThereAreNotJudged) {
  std::map<std::string, Json> rows = Compare({"--only=host", "--peers=" + ::testing::TempDir() + "/none"});
  const Json& row = rows["all_reduce 4096 B registered"];
  EXPECT_GT(row["ours_us"]["least"], 0) << row;
  EXPECT_FALSE(row.contains("prototype_us"));
  for (const Json& goal : row["goals"]) EXPECT_TRUE(goal["met"].is_null()) << row;
}

TEST_F(Peers, ManyRanksAndTheStartHaveRowsOfTheirOwn) {
  const Json ranks = Compare({"--only=ranks"})["all_reduce 4096 B, 8 ranks registered"];
  EXPECT_GT(ranks["ours_us"]["least"], 0) << ranks;
  EXPECT_GT(ranks["floor_us"]["least"], 0) << ranks;
  EXPECT_TRUE(ranks["goals"][0]["met"].is_boolean()) << ranks;
  const Json start = Compare({"--only=start"})["start to first step, 8 ranks"];
  EXPECT_GT(start["ours_us"]["least"], 0) << start;
}

}  // namespace
}  // namespace zeroshard::integration_tests
