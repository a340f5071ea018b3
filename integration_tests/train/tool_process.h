// A tool of this project as a process: started with flags, watched, sent signals, waited for.
//
// Its environment is small and fixed: no launcher's variables, a cache folder of the test's own.
//
// Example:
//   ToolProcess train("tools/train", {"--steps=2"});
//   const ToolResult result = train.Wait();
//   EXPECT_EQ(result.code, 0) << result.errors;
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace zeroshard::integration_tests {

struct ToolResult {
  int code = -1;  // exit code; 128 + the signal where one ended it; -1: it did not end in time, and was killed
  bool dumped_core = false;
  double seconds = 0;  // since it was started
  std::string output;  // standard output
  std::string errors;  // standard error
};

class ToolProcess {
 public:
  enum class ErrorsTo {
    kFile,
    kClosedPipe,  // one that nobody reads
  };

  // `program`: relative to the runfiles.
  ToolProcess(const std::string& program, const std::vector<std::string>& arguments,
              const std::vector<std::string>& environment = {}, ErrorsTo errors_to = ErrorsTo::kFile);
  ~ToolProcess();
  ToolProcess(const ToolProcess&) = delete;
  ToolProcess& operator=(const ToolProcess&) = delete;

  pid_t pid() const { return pid_; }
  // What it has written to its standard error so far.
  std::string Errors() const;
  // Whether its standard error came to hold `text` in time.
  bool AwaitError(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(60)) const;
  // Its child processes: the ranks, in the order in which they were started.
  std::vector<pid_t> Children() const;
  ToolResult Wait(std::chrono::seconds limit = std::chrono::seconds(120));

 private:
  pid_t pid_ = -1;
  std::string output_path_;
  std::string errors_path_;
  std::chrono::steady_clock::time_point started_;
};

// Runs a tool to its end.
ToolResult RunTool(const std::string& program, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment = {});

// The last line of a text.
std::string LastLine(const std::string& text);

std::string ReadFile(const std::string& path);
// Writes a file in the test's own folder, and gives its path.
std::string WriteFile(const std::string& name, const std::string& bytes);

// About `bytes` of text that a small model can learn something from.
std::string SomeText(int bytes);

}  // namespace zeroshard::integration_tests
