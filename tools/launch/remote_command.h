// One rank on another host, over ssh: what is executed here, and what the shell there is told.
//
// Nothing secret stands on a command line: the job's token comes as the first line of the standard input. Each line after it names a
// signal for the rank; the input's end kills it: so a rank never outlives the one who started it, whatever happened to the network.
//
// Example:
//   SshCommand({.ssh = "ssh", .host = "node1", .folder = "/home/me", .variables = {{"RANK", "0"}}, .command = {"./prog", "it's"}});
//   // {"ssh", "-T", "-o", "BatchMode=yes", "--", "node1", "exec sh -c '...'"}
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroshard::tools {

// `text` as one word of a POSIX shell, whatever is in it.
std::string ShellQuoted(std::string_view text);

// "A,B": the hosts, in order. Errors: kInvalidArgument one that is no name or address (ssh would take "-x" for an option).
absl::StatusOr<std::vector<std::string>> ParseHosts(std::string_view list);

// "me@node1" -> "node1".
std::string HostOf(std::string_view destination);

struct RemoteRank {
  std::string ssh = "ssh";                                          // the program, found in PATH
  std::string host = {};                                            // as ssh takes it
  std::string folder = {};                                          // in which the rank runs
  std::vector<std::pair<std::string, std::string>> variables = {};  // of its environment
  std::string token_variable = {};                                  // the one that the first line of the input is put in
  std::vector<std::string> command = {};                            // a program, and its arguments
};

// The words to execute.
std::vector<std::string> SshCommand(const RemoteRank& rank);

}  // namespace zeroshard::tools
