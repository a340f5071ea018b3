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

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/store.h"

namespace zeroshard::backends {

// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// The connections to one peer; none to oneself.
struct PeerSockets {
  Socket data;
  Socket line;
};

struct ConnectOptions {
  comm::Store* store = nullptr;
  int rank = 0;
  int world_size = 1;
  absl::Duration timeout = absl::Minutes(5);
  std::string interface = {};       // see network_address.h
  std::string master_address = {};  // MASTER_ADDR, may be empty
};

// Collective. Gives [world_size]; sockets are connected, non-blocking, and without delay.
// Errors: kDeadlineExceeded, naming the ranks that did not come, or that could not be reached and where; kInvalidArgument the
// interface; the store's.
absl::StatusOr<std::vector<PeerSockets>> ConnectPeers(const ConnectOptions& options);

}  // namespace zeroshard::backends
