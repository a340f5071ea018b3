#include "zeroshard/comm/rendezvous/token_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/rendezvous/job_token.h"

namespace zeroshard::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(JobToken, IsRandomAndComparedWhole) {
  std::set<std::string> made;
  for (int i = 0; i < 100; ++i) made.insert(MakeJobToken().value());
  EXPECT_EQ(made.size(), 100U);
  EXPECT_EQ(made.begin()->size(), 32U);
  EXPECT_TRUE(SameToken(kToken, kToken));
  EXPECT_FALSE(SameToken(kToken, ""));
  EXPECT_FALSE(SameToken(kToken, std::string(kToken) + kToken));
  EXPECT_FALSE(SameToken(kToken, std::string(kToken).substr(1)));
  EXPECT_FALSE(SameToken("", "x"));
  for (const char* bad : {"short", "a token with spaces in it", "a-token-with-\x01-in-it"}) {
    EXPECT_EQ(CheckJobToken(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(TokenFile, IsItsUsersAloneAndGoneAtTheEnd) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/tokens.", getpid(), "/jobs/job");
  {
    const auto file = TokenFile::Leave(path, kToken);
    ASSERT_TRUE(file.ok()) << file.status();
    struct stat found;
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600U);
    EXPECT_EQ(ReadTokenFile(path).value(), kToken);
    ASSERT_TRUE(TokenFile::Leave(path, "another-token-of-a-later-run").ok());
  }
  EXPECT_FALSE(ReadTokenFile(path).value().has_value());
  std::ofstream(path) << kToken;
  chmod(path.c_str(), 0644);
  EXPECT_THAT(Message(ReadTokenFile(path).status()), AllOf(HasSubstr(path), HasSubstr("chmod 600")));
  chmod(path.c_str(), 0600);
  EXPECT_EQ(ReadTokenFile(path).value(), kToken);
  std::ofstream(path) << "short";
  EXPECT_EQ(ReadTokenFile(path).status().code(), absl::StatusCode::kInvalidArgument);
  unlink(path.c_str());
  ASSERT_EQ(symlink("/etc/passwd", path.c_str()), 0);
  EXPECT_FALSE(ReadTokenFile(path).ok());
  unlink(path.c_str());
}

std::string Path(const LaunchEnvironment& launch, const std::map<std::string, std::string>& variables, int parent) {
  const auto path = TokenPath(
      launch,
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
      },
      parent, "n:1");
  return path.ok() ? *path : Message(path.status());
}

TEST(TokenFile, LiesWhereAllRanksLook) {
  LaunchEnvironment slurm, alone, torchrun;
  slurm.world_size = alone.world_size = torchrun.world_size = 4;
  slurm.job_id = "77.0";
  alone.local_world_size = torchrun.local_world_size = 4;
  torchrun.job_id = "none";
  const std::map<std::string, std::string> home = {{"HOME", "/home/me"}, {"XDG_RUNTIME_DIR", "/run/user/1"}};
  EXPECT_EQ(Path(slurm, home, 7), "/home/me/.cache/zeroshard/jobs/77%2E0-n%3A1");
  EXPECT_EQ(Path(alone, home, 7), "/run/user/1/zeroshard/jobs/parent-7-n%3A1");
  EXPECT_EQ(Path(torchrun, home, 8), "/run/user/1/zeroshard/jobs/parent-8-n%3A1");
  EXPECT_EQ(Path(slurm, {{"XDG_CACHE_HOME", "/c"}}, 7), "/c/zeroshard/jobs/77%2E0-n%3A1");
  EXPECT_THAT(Path(slurm, {}, 7), HasSubstr("--token_file"));
}

}  // namespace
}  // namespace zeroshard::comm
