// Meeting: how the ranks of a job find each other, from what the launcher and the flags say.
//
// The job's token comes from --token_file; else from the launcher (kTokenVariable); else rank 0 makes one and leaves it where the
// other ranks of this user look (comm/rendezvous/token_file.h). Rank 0 listens on the socket that the launcher handed down
// (kListenerVariable), or opens one.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<comm::Store> store, Meet({.store = "tcp:node1:29500"}, launch));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/launch_environment.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/store_member.h"

namespace zeroshard::tools {

// In the environment of ranks that this project's launcher started: the job's token; and, for rank 0, the number of a socket that
// listens at MASTER_PORT.
inline constexpr char kTokenVariable[] = "ZEROSHARD_TOKEN";
inline constexpr char kListenerVariable[] = "ZEROSHARD_LISTENER";

struct MeetingOptions {
  std::string store = {};       // "file:PATH", "tcp:HOST:PORT"
  std::string bind = {};        // where to listen: see comm/network_address.h
  std::string token_file = {};  // empty: none
  absl::Duration timeout = absl::Minutes(5);
  std::vector<comm::StoreTerm> terms = {};  // what all ranks must have been given alike
};

// Collective over the ranks of the job. Errors: those of comm::OpenStore, and of the token's file.
absl::StatusOr<std::unique_ptr<comm::Store>> Meet(const MeetingOptions& options, const comm::LaunchEnvironment& launch);

// Rank 0's host, as the store's address names it; empty where it does not.
std::string MasterOf(const std::string& store);

// Where rank `rank`'s backend listens by --bind: an address is one of rank 0's host, a name means every host's interface.
std::string InterfaceOf(const std::string& bind, int rank);

}  // namespace zeroshard::tools
