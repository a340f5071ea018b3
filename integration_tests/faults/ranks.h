// Ranks under test: started together, watched by their reports, killed, stopped and continued.
//
// Example:
//   std::unique_ptr<Ranks> ranks = MakeProcessRanks("gloo", {});
//   ranks->Start(3, absl::Seconds(30), body);
//   ASSERT_TRUE(ranks->AwaitOperations(1, 5));
//   ranks->Kill(1);
//   EXPECT_TRUE(ranks->Ended(0, NowMs() + 5000)) << ranks->report(0).message;
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/integration_tests/faults/rank_report.h"

namespace zeroshard::integration_tests {

class Ranks {
 public:
  // What a rank does; what it gives is reported.
  using Body = std::function<absl::Status(comm::Communicator&, RankReport&)>;

  static constexpr int kMost = 8;

  Ranks();
  // Ends those that are left.
  virtual ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Once. `timeout` is of connecting and of each operation. Of processes, ranks from `started` on never come.
  virtual void Start(int world_size, absl::Duration timeout, const Body& body, int started = kMost) = 0;
  // At once, and collected by nobody: a process stays a zombie for as long as the others run.
  virtual void Kill(int rank) = 0;
  virtual void Stop(int rank) = 0;
  virtual void Continue(int rank) = 0;
  // CPU time so far: of the rank's process; of all ranks where they share one.
  virtual int64_t CpuMs(int rank) = 0;
  // The rank's process; this one where they share it.
  virtual pid_t process(int rank) = 0;
  // How the rank's process ended otherwise than by itself, or by Kill; empty where it did not. After Ended.
  virtual std::string Crash(int rank) = 0;
  // Where ranks meet: files that are there still.
  virtual int64_t FilesLeft() = 0;

  RankReport& report(int rank) { return reports_[rank]; }
  std::string message(int rank) { return report(rank).message; }
  // False where it does not by `limit_ms`, on NowMs's clock.
  bool Ended(int rank, int64_t limit_ms);
  bool AwaitOperations(int rank, int64_t count);

 protected:
  static void Note(RankReport& report, const absl::Status& ended);

 private:
  RankReport* reports_;  // [kMost], in memory that child processes share
};

// Ranks that are processes: `backend` by its name, met in a file, with these variables set.
std::unique_ptr<Ranks> MakeProcessRanks(const std::string& backend,
                                        std::vector<std::pair<std::string, std::string>> environment);

}  // namespace zeroshard::integration_tests
