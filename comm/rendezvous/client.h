// RendezvousClient: one rank's calls to the rendezvous over a connection that was let in, and its attendance there.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto client, RendezvousClient::Over(std::move(socket), {.rank = 1, .token = token, .where = "node1:29500"}));
//   ZS_RETURN_IF_ERROR(client->Join(member, deadline));
//   client->Attend();
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "zeroshard/comm/last_operation.h"
#include "zeroshard/comm/rank_watch.h"
#include "zeroshard/comm/rendezvous/rendezvous.grpc.pb.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/comm/store_member.h"

namespace zeroshard::comm {

struct ClientOptions {
  int rank = 0;
  std::string token = {};
  std::string where = {};                  // for messages
  absl::Duration beat = absl::Seconds(1);  // between two beats
  // Of calls that do not wait for other ranks, from when rank 0 was heard of last.
  absl::Duration patience = absl::Seconds(30);
};

// Thread-safe. Errors of all calls: kUnavailable rank 0 is gone, kDeadlineExceeded it does not answer; and the server's.
class RendezvousClient final : public RankWatch {
 public:
  RendezvousClient(Socket connection, ClientOptions options);
  // Says farewell.
  ~RendezvousClient() override;

  // Returns when all ranks have joined. Errors: see TcpStore::Open.
  absl::Status Join(const StoreMember& member, absl::Time deadline);
  // Begins to beat. After Join.
  void Attend();

  absl::Status Set(std::string_view key, std::string_view value);
  absl::StatusOr<std::optional<std::string>> Get(std::string_view key);
  absl::StatusOr<int64_t> Add(std::string_view key, int64_t delta);
  // Leaves in `keys` those that are not there by then.
  absl::Status Wait(std::vector<std::string>& keys, absl::Duration timeout);

  const std::string& where() const { return options_.where; }
  // Of the recorder that it follows.
  LastOperation last() const;

  void Follow(std::shared_ptr<const device::Recorder> recorder) override;
  std::string WhoIsMissing() override;

 private:
  using Stub = rendezvous::Rendezvous::Stub;

  template <class Request, class Reply>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*), const Request& request,
                    Reply& reply, absl::Time deadline, const char* what);
  void Prepare(grpc::ClientContext& context, absl::Time deadline) const;
  absl::Time AnswerBy() const;
  // Who has not come, where the server can be asked.
  std::string AskWhoIsMissing(absl::Status& status);
  void BeatUntilTold();
  // False once the server is done with this rank.
  bool BeatOnce(grpc::ClientReaderWriter<rendezvous::Beat, rendezvous::Pulse>& stream, bool farewell);
  std::string RankZeroIsMissing(std::string_view how) const;

  const ClientOptions options_;
  std::unique_ptr<Stub> stub_;

  mutable std::mutex mutex_;  // of what follows
  std::shared_ptr<const device::Recorder> recorder_;
  LastOperation rank_zeros_last_;
  absl::Time rank_zero_heard_;
  std::optional<std::string> farewell_;  // rank 0 has left: who was missing then
  bool rank_zero_gone_ = false;
  bool stop_ = false;
  bool hurry_ = false;  // the next beat is due now
  bool beating_ = false;
  std::condition_variable wake_;
  grpc::ClientContext attendance_;
  std::thread thread_;
};

}  // namespace zeroshard::comm
