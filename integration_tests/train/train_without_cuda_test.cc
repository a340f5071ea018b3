// That a run on cores has nothing of CUDA's in it, built with a toolkit or without: its memory and its start are the same.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/integration_tests/train/tool_process.h"

namespace zeroshard::integration_tests {
namespace {

// What is CUDA's, by the names of its files.
constexpr std::array kCudas = {"libcuda", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libnvidia", "libzeroshard_cuda"};

void ExpectNothingOfCudas(const std::string& text) {
  for (const char* name : kCudas) EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr(name)));
}

std::string OutputOf(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part;
  for (size_t got; (got = fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), got);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

TEST(TrainOnCores, IsLinkedToNothingOfCudas) {
  for (const char* tool : {"tools/train", "tools/golden", "tools/comm_bench"}) {
    const std::string libraries = OutputOf(absl::StrCat("ldd ", tool));
    EXPECT_THAT(libraries, ::testing::HasSubstr("libc.so"));
    ExpectNothingOfCudas(libraries);
  }
}

TEST(TrainOnCores, OpensNothingOfCudas) {
  ToolProcess train("tools/train", {"--data=" + WriteFile("text.txt", SomeText(20000)), "--tokenizer=bytes", "--layers=1",
                                    "--heads=1", "--width=16", "--context=16", "--batch=2", "--steps=1000000", "--sample=0",
                                    "--progress=plain", "--steps_per_print=1"});
  ASSERT_TRUE(train.AwaitError("step")) << train.Errors();
  for (const pid_t rank : train.Children()) {
    const std::string maps = ReadFile(absl::StrCat("/proc/", rank, "/maps"));
    EXPECT_THAT(maps, ::testing::HasSubstr("libc.so"));
    ExpectNothingOfCudas(maps);
  }
  EXPECT_FALSE(train.Children().empty());
}

}  // namespace
}  // namespace zeroshard::integration_tests
