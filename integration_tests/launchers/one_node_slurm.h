// A Slurm of one node, this one, with a munge of its own: started for a test, and ended with it.
//
// Example:
//   OneNodeSlurm slurm("/tmp/test/slurm");
//   if (!slurm.why_not().empty()) GTEST_SKIP() << slurm.why_not();
//   RunTool("/usr/bin/srun", {"-n", "2", "program"}, {"SLURM_CONF=" + slurm.configuration()});
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace zeroshard::integration_tests {

class OneNodeSlurm {
 public:
  // `folder` is made; its path is short enough for a socket's name.
  explicit OneNodeSlurm(std::string folder);
  ~OneNodeSlurm();
  OneNodeSlurm(const OneNodeSlurm&) = delete;
  OneNodeSlurm& operator=(const OneNodeSlurm&) = delete;

  // Why it does not run; empty: it does.
  const std::string& why_not() const { return why_not_; }
  std::string configuration() const { return folder_ + "/slurm.conf"; }

 private:
  void Configure() const;
  // Starts a daemon that stays in the foreground.
  void Start(const std::vector<std::string>& words);
  bool AwaitIdleNode() const;

  const std::string folder_;
  std::string why_not_;
  std::vector<pid_t> daemons_;
};

}  // namespace zeroshard::integration_tests
