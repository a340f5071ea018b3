// Which networks UCX takes: the interfaces over which this rank's lines reach its peers, and the RDMA ports that the machine has.
//
// Left alone, UCX takes every interface that is up, and sends to 172.17.0.1 of a docker0 that each host has of its own.
// UCX_NET_DEVICES and UCX_TCP_AF_PRIO of the environment are the user's, and win.
//
// Example:
//   const LineEnds ends = EndsOf(lines);
//   ZS_ASSIGN_OR_RETURN(const UcxNetworks networks, ChooseNetworks(ends, {.store = &store, .rank = rank, ...}));
//   ZS_ASSIGN_OR_RETURN(std::shared_ptr<UcxWorker> worker, UcxWorker::Create(world_size, UcxWays::kAll, networks));
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard::backends {

struct UcxNetworks {
  std::string devices = {};   // as UCX_NET_DEVICES: "eth0,mlx5_0:1"; empty: all
  std::string families = {};  // as UCX_TCP_AF_PRIO: "inet,inet6"; empty: UCX's order
  int port = 0;               // at which UCX's TCP listens; 0: one that is free

  std::vector<std::string> sources = {};  // the addresses from which ranks connect; empty: nobody knows
};

// Where this rank's lines have their ends.
struct LineEnds {
  std::set<std::string> interfaces = {};  // of this host
  std::vector<std::string> peers = {};    // by rank: the peer's address as it is seen here; empty where there is no line
};

struct NetworkMeeting {
  comm::Store* store = nullptr;
  int rank = 0;
  int world_size = 1;
  comm::Deadline deadline;
  // Why waiting is of no use any more; OK where it still is.
  std::function<absl::Status()> given_up = [] { return absl::OkStatus(); };
};

// `lines`: one for each rank.
LineEnds EndsOf(std::span<const comm::Socket> lines);

// Collective. UCX speaks one family on an interface: IPv4 where every rank has it on its own, else IPv6. Ranks connect from their
// hosts' addresses, unless a line says that somebody between hosts gives them others.
// Errors: kInvalidArgument neither is everywhere, with what each rank has; kDeadlineExceeded, naming a rank that did not come; the
// store's; given_up's.
absl::StatusOr<UcxNetworks> ChooseNetworks(const LineEnds& ends, const NetworkMeeting& meeting);

}  // namespace zeroshard::backends
