// How the ranks of a group find and connect to each other: sockets whose other end has proved which rank it is.
//
// Each rank publishes an address, a port and a random token in the store, connects to every lower rank and is connected to by
// every higher one, twice for each pair: `data` carries Gloo's messages, `line` what ranks say about themselves (peer_lines.h).
// A connection counts when the connecting side has shown the listener's token and the listener the connecting side's; whoever
// else connects is turned away, however it behaves, and delays nobody.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::vector<PeerSockets> peers,
//                       ConnectPeers({.store = store, .rank = rank, .world_size = n, .timeout = absl::Seconds(30)}));
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/port_range.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/wait_board.h"

namespace zeroshard::backends {

using comm::Socket;

// The connections to one peer; none to oneself.
struct PeerSockets {
  Socket data;
  Socket line;
  // The lowest rank on its host (HostIdentity, endpoint.h), the same on all ranks, as the store gives it.
  int host = 0;
};

struct ConnectOptions {
  comm::Store* store = nullptr;
  int rank = 0;
  int world_size = 1;
  absl::Duration timeout = absl::Minutes(5);
  std::string interface = {};       // see comm/network_address.h
  std::string master_address = {};  // MASTER_ADDR, may be empty
  comm::PortRange ports = {};       // at which this rank listens; none: any
  std::vector<int> numbers = {};    // of a split: what messages call each rank (comm::Transport::number)

  std::shared_ptr<comm::WaitBoard> waits = {};  // this rank's, where groups are split off

  int Number(int peer) const { return numbers.empty() ? peer : numbers[static_cast<size_t>(peer)]; }
};

// Those of a group of these members, in which this rank is `rank`.
ConnectOptions OfSplit(const ConnectOptions& options, std::span<const int> members, int rank, absl::Duration timeout);

// A backend's next transport of this rank: the prefix of its keys in the store. Ranks make their transports in the same order, and the n-th
// of each rank meet. `options` get a board of their own where they have none.
// Errors: kInvalidArgument there is no store, or no such rank; the store's.
absl::StatusOr<std::string> StorePrefixOfNext(std::string_view backend, ConnectOptions& options);

// Collective. Gives [world_size]; sockets are connected, non-blocking, and without delay.
// Errors: kDeadlineExceeded, naming the ranks that did not come, or that could not be reached and where; kInvalidArgument the
// interface; the store's.
absl::StatusOr<std::vector<PeerSockets>> ConnectPeers(const ConnectOptions& options);

}  // namespace zeroshard::backends
