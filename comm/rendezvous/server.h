// RendezvousServer: the rendezvous of a job as a gRPC service (rendezvous.proto), in rank 0. It listens nowhere: connections that
// the door let in are handed to it.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto server, RendezvousServer::Start({.world_size = 4, .token = token, .silence = absl::Seconds(4)}));
//   server->Adopt(std::move(socket));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/last_operation.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/comm/store_member.h"

namespace zeroshard::comm {

struct ServerOptions {
  int world_size = 1;
  std::string token = {};
  std::vector<StoreTerm> terms = {};                  // rank 0's: what the others are held to
  absl::Duration silence = absl::Seconds(4);          // from when on a rank that does not beat is missing
  std::function<LastOperation()> own_last = nullptr;  // rank 0's last operation, from any thread
};

class RendezvousServer {
 public:
  // Errors: kUnavailable gRPC does not start.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(ServerOptions options);
  // Tells the ranks that are still there who is missing, and ends.
  ~RendezvousServer();

  // A connection of a rank's. Thread-safe.
  void Adopt(Socket connection);

  // Wait until every rank has come, or was told why it cannot, and until every rank but 0 has left, or is missing; `limit` at the most.
  void AwaitArrivals(absl::Duration limit);
  void AwaitDepartures(absl::Duration limit);

 private:
  class Service;
  RendezvousServer();

  std::unique_ptr<Service> service_;
  // gRPC's server: its header stays out of this one.
  struct Running;
  std::unique_ptr<Running> running_;
};

}  // namespace zeroshard::comm
