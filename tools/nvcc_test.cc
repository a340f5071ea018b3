// That a kernel which spills registers does not build: nvcc.sh runs a compiler of the test's own.
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int code;
  std::string said;
};

// What nvcc.sh makes of a compiler that says `text` and ends with `code`.
Result Compile(const std::string& text, int code) {
  const std::string compiler = testing::TempDir() + "/compiler";
  std::ofstream(compiler) << "#!/bin/sh\n[ \"$1 $2\" = '-Xptxas -v' ] || exit 77\ncat <<'E'\n"
                          << text << "E\nexit " << code << "\n";
  chmod(compiler.c_str(), 0700);
  FILE* const pipe = popen(("tools/nvcc.sh " + compiler + " 2>&1").c_str(), "r");
  Result result;
  std::array<char, 4096> part;
  for (size_t got; (got = fread(part.data(), 1, part.size(), pipe)) > 0;) result.said.append(part.data(), got);
  result.code = WEXITSTATUS(pclose(pipe));
  return result;
}

constexpr char kEntry[] = "ptxas info    : Compiling entry function '_Z4GeluPf' for 'sm_90'\n";
constexpr char kLean[] =
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 24 registers\n";

TEST(Nvcc, RefusesAKernelThatSpillsByItsName) {
  const std::string spilling = "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n";
  const Result result = Compile(
      std::string(kEntry) + kLean + "ptxas info    : Compiling entry function '_Z3SumPf' for 'sm_80'\n" + spilling, 0);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.said, HasSubstr("registers are spilled"));
  EXPECT_THAT(result.said, HasSubstr("Sum(float*)"));
  EXPECT_THAT(result.said, Not(HasSubstr("Gelu")));
}

TEST(Nvcc, IsSilentWhereNothingSpills) {
  const Result result = Compile(std::string(kEntry) + kLean, 0);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.said, "");
}

TEST(Nvcc, PassesAnErrorOn) {
  const Result result = Compile("gelu.cu.cc(7): error: expected a \";\"\n", 2);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.said, HasSubstr("expected a"));
}

}  // namespace
