// Starts one rank of a job: with its place and the job's token in its environment, here or on another host.
//
// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and kTokenVariable (meeting.h) are set. Where all ranks are
// processes of this same program, and here, rank 0 is handed the socket that listens at MASTER_PORT; another program finds that port
// free. On other hosts a rank runs under ssh (remote_command.h), in the same folder.
//
// Example:
//   RankSpawner spawner(options, mask);
//   ZS_ASSIGN_OR_RETURN(RankProcess rank, spawner.Start(0));
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/port_range.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/tools/launch/loopback_listener.h"

namespace zeroshard::tools {

struct RankProcessesOptions {
  int ranks = 2;                            // on each host
  std::vector<std::string> arguments = {};  // of each rank, after the program's name
  std::string name = "zeroshard";           // of the program, for messages
  std::string program = {};                 // a path, or a name that PATH finds; empty: this same program
  std::vector<std::string> hosts = {};      // as ssh takes them; empty: this one
  std::string ssh = "ssh";
  int port = 0;                // MASTER_PORT on several hosts; 0: one that is made up
  comm::PortRange ports = {};  // of which that is; none: any
};

// Set in the environment of ranks that are this same program: "live" where somebody looks at progress, else "plain".
inline constexpr char kRelayVariable[] = "ZEROSHARD_RELAY";

struct RankProcess {
  pid_t pid = -1;
  comm::Socket output;        // our end of its standard output; none where that is this process's
  comm::Socket errors;        // of its standard error
  comm::Socket orders;        // of the standard input of an ssh; none for a rank that is here
  std::optional<int> status;  // as waitpid gives it
  bool told = false;          // a signal of ours may be why it ended

  // Sends a signal to a rank that has not ended, wherever it is.
  void Tell(int signal);
};

class RankSpawner {
 public:
  // `outside`: the signal mask that ranks get.
  RankSpawner(const RankProcessesOptions& options, const sigset_t& outside);

  int world_size() const;
  // Whether ranks' standard outputs come through RankProcess::output.
  bool relays_output() const { return !options_.program.empty(); }
  // Errors: the system's.
  absl::StatusOr<RankProcess> Start(int rank);
  // "rank 3", "rank 3 on node2".
  std::string Describe(int rank) const;
  bool remote() const { return !options_.hosts.empty(); }

 private:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  Variables Place(int rank) const;
  const std::string& Host(int rank) const { return options_.hosts[static_cast<size_t>(rank / options_.ranks)]; }
  std::vector<std::string> Command(int rank) const;
  // In the child, between fork and exec.
  [[noreturn]] void Become(int rank, int input, int output, int errors);

  const RankProcessesOptions& options_;
  const sigset_t outside_;
  LoopbackListener listener_;
  std::string master_address_;
  absl::StatusOr<std::string> token_;
};

}  // namespace zeroshard::tools
