#include "zeroshard/tools/launch/remote_command.h"

#include <array>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// What a shell prints that is given `command`.
std::string Shell(const std::string& command) {
  std::string output;
  FILE* const shell = popen(command.c_str(), "r");
  std::array<char, 4096> bytes;
  for (size_t got; (got = fread(bytes.data(), 1, bytes.size(), shell)) > 0;) output.append(bytes.data(), got);
  output += absl::StrCat("code ", WEXITSTATUS(pclose(shell)));
  return output;
}

TEST(ShellQuoted, LeavesEveryByteAsItIs) {
  for (const std::string& text :
       {std::string("plain"), std::string(""), std::string("it's"), std::string("$(touch x) `y` \"z\" \\ *"),
        std::string("a\nb"), std::string("''"), std::string("; exit 1 &&"), std::string("-n ~ #!")}) {
    EXPECT_EQ(Shell(absl::StrCat("printf %s ", ShellQuoted(text))), absl::StrCat(text, "code 0"));
  }
}

TEST(ParseHosts, RefusesWhatSshWouldMisread) {
  EXPECT_THAT(ParseHosts("node1,me@node2,fd00::1,10.0.0.1").value(),
              ElementsAre("node1", "me@node2", "fd00::1", "10.0.0.1"));
  for (const char* list : {"", "a,", "-oProxyCommand=x", "a;b", "a b", "$(x)", "a,,b", "a\nb"}) {
    EXPECT_EQ(ParseHosts(list).status().code(), absl::StatusCode::kInvalidArgument) << list;
  }
  EXPECT_EQ(HostOf("me@node2"), "node2");
  EXPECT_EQ(HostOf("node2"), "node2");
}

RemoteRank Rank(std::vector<std::string> command) {
  return {.host = "node1",
          .folder = "/",
          .variables = {{"RANK", "3"}, {"STRANGE", "it's $HOME"}},
          .token_variable = "ZEROSHARD_TOKEN",
          .command = std::move(command)};
}

// What the last word, given to a shell as sshd would, does when it reads `input`.
std::string There(const RemoteRank& rank, const std::string& input) {
  return Shell(absl::StrCat("printf '", input, "' | sh -c ", ShellQuoted(SshCommand(rank).back())));
}

TEST(SshCommand, RunsTheProgramWithItsArgumentsAndEnvironment) {
  const RemoteRank rank =
      Rank({"sh", "-c", "echo \"$RANK|$STRANGE|$ZEROSHARD_TOKEN|$1|$(pwd)\"; read x; echo \"[$x]\"; exit 7", "sh",
            "a 'quoted' $word"});
  // The input stays open: its end would kill the rank.
  EXPECT_EQ(Shell(absl::StrCat("{ echo secret; sleep 2; } | sh -c ", ShellQuoted(SshCommand(rank).back()))),
            "3|it's $HOME|secret|a 'quoted' $word|/\n[]\ncode 7");
  for (const std::string& word : SshCommand(rank)) EXPECT_THAT(word, Not(HasSubstr("secret")));
}

TEST(SshCommand, HandsSignalsOnAndKillsAtTheEndOfTheInput) {
  EXPECT_EQ(There(Rank({"sleep", "60"}), "token\\nTERM\\n"), "code 143");
  EXPECT_EQ(There(Rank({"sleep", "60"}), "token\\n"), "code 137");
}

TEST(SshCommand, EndsWithTwoWhereTheFolderIsMissing) {
  RemoteRank rank = Rank({"true"});
  rank.folder = "/nonexistent";
  EXPECT_THAT(There(rank, "token\\n"), HasSubstr("code 2"));
}

}  // namespace
}  // namespace zeroshard::tools
