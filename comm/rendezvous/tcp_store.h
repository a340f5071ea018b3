// TcpStore: the store that rank 0 serves over TCP: values, and a watch over the ranks. See rendezvous.proto.
//
// Rank 0 listens (door.h), serves (server.h), and is a client of its own service like every other rank. Each rank has one
// connection, a thread that beats on it, and gRPC's threads; no port but rank 0's is opened.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<TcpStore> store,
//                       TcpStore::Open("node1:29500", {.rank = 1, .world_size = 4, .token = token}));
//   store->watch()->WhoIsMissing();
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/store_member.h"

namespace zeroshard::comm {

class RendezvousClient;

class TcpStore final : public Store {
 public:
  // Collective over the ranks of the job: returns when all are there. `address`: of rank 0, HOST:PORT.
  // Errors: kInvalidArgument the address, the interface (with what there is), the token; kAlreadyExists the port is taken, or two
  // processes say that they are this rank; kDeadlineExceeded, naming the ranks that did not come, or why rank 0 was not reached;
  // kFailedPrecondition ranks that disagree on the world size or on a term, with both values; kUnauthenticated another job's port.
  static absl::StatusOr<std::unique_ptr<TcpStore>> Open(std::string_view address, const StoreMember& member);
  // Takes leave. Rank 0 stays for those that are still there, for five seconds at the most.
  ~TcpStore() override;

  std::string Describe() const override;
  RankWatch* watch() override;

 private:
  class Host;
  TcpStore();

  absl::Status DoSet(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::optional<std::string>> DoTryGet(std::string_view key) override;
  absl::StatusOr<int64_t> DoAdd(std::string_view key, int64_t delta) override;
  absl::Status DoWait(std::vector<std::string>& keys, absl::Duration timeout) override;
  void DoPause(int round, absl::Duration limit) override;

  // In this order: the client leaves before the server ends.
  std::unique_ptr<Host> host_;  // on rank 0
  std::unique_ptr<RendezvousClient> client_;
};

}  // namespace zeroshard::comm
