// RendezvousServer: the rendezvous of a job as a gRPC service (rendezvous.proto), in rank 0. It listens nowhere: connections that
// the door let in are handed to it.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto server, RendezvousServer::Start({.world_size = 4, .token = token, .silence = absl::Seconds(4)}));
//   server->Adopt(std::move(socket));
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "zeroshard/comm/rendezvous/service.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::comm {

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
  RendezvousServer();

  std::unique_ptr<RendezvousService> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace zeroshard::comm
