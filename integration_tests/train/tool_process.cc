#include "zeroshard/integration_tests/train/tool_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace zeroshard::integration_tests {
namespace {

using Clock = std::chrono::steady_clock;

std::string NewPath(const std::string& suffix) {
  static std::atomic<int> count{0};
  return absl::StrCat(::testing::TempDir(), "/", getpid(), ".", count++, suffix);
}

void Redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  dup2(file, descriptor);
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string SomeText(int bytes) {
  std::string text;
  for (int i = 0; static_cast<int>(text.size()) < bytes; ++i) {
    absl::StrAppend(&text, "The square of ", i % 97, " is ", (i % 97) * (i % 97), ", as everybody knows.\n");
  }
  return text;
}

std::string LastLine(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  return lines.empty() ? "" : lines.back();
}

ToolProcess::ToolProcess(const std::string& program, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment, ErrorsTo errors_to)
    : output_path_(NewPath(".out")), errors_path_(NewPath(".err")), started_(Clock::now()) {
  std::vector<std::string> all = {program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = {absl::StrCat("XDG_CACHE_HOME=", ::testing::TempDir(), "/cache"),
                                        absl::StrCat("TMPDIR=", ::testing::TempDir()), "PATH=/usr/bin:/bin",
                                        "OMP_NUM_THREADS=1"};
  variables.insert(variables.end(), environment.begin(), environment.end());
  const auto pointers = [](std::vector<std::string>& strings) {
    std::vector<char*> list;
    for (std::string& s : strings) list.push_back(s.data());
    list.push_back(nullptr);
    return list;
  };
  const std::vector<char*> argv = pointers(all), envp = pointers(variables);
  pid_ = fork();
  if (pid_ != 0) return;
  Redirect(output_path_, STDOUT_FILENO);
  Redirect(errors_path_, STDERR_FILENO);
  int ends[2];
  if (errors_to == ErrorsTo::kClosedPipe && pipe(ends) == 0) {
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
  }
  execve(program.c_str(), argv.data(), envp.data());
  _exit(127);
}

ToolProcess::~ToolProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string ToolProcess::Errors() const { return ReadFile(errors_path_); }

bool ToolProcess::AwaitError(const std::string& text, std::chrono::seconds limit) const {
  for (const Clock::time_point end = Clock::now() + limit; Clock::now() < end;) {
    if (Errors().find(text) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

std::vector<pid_t> ToolProcess::Children() const {
  std::vector<pid_t> children;
  std::istringstream list(ReadFile(absl::StrCat("/proc/", pid_, "/task/", pid_, "/children")));
  for (pid_t child; list >> child;) children.push_back(child);
  return children;
}

ToolResult ToolProcess::Wait(std::chrono::seconds limit) {
  ToolResult result;
  int status = 0;
  pid_t ended = 0;
  const Clock::time_point end = Clock::now() + limit;
  while ((ended = waitpid(pid_, &status, WNOHANG)) == 0 && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  if (ended == pid_) {
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.dumped_core = WIFSIGNALED(status) && WCOREDUMP(status);
  } else {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
  result.output = ReadFile(output_path_);
  result.errors = ReadFile(errors_path_);
  return result;
}

ToolResult RunTool(const std::string& program, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment) {
  return ToolProcess(program, arguments, environment).Wait();
}

}  // namespace zeroshard::integration_tests
