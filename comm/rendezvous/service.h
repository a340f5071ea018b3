// RendezvousService: the calls of rendezvous.proto, by gRPC's callbacks: no call holds a thread while it waits.
//
// Example:
//   RendezvousService service({.world_size = 4, .token = token});
//   builder.RegisterService(&service);
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/support/server_callback.h"
#include "zeroshard/comm/last_operation.h"
#include "zeroshard/comm/rendezvous/rendezvous.grpc.pb.h"
#include "zeroshard/comm/rendezvous/roll.h"
#include "zeroshard/comm/rendezvous/values.h"
#include "zeroshard/comm/store_member.h"

namespace zeroshard::comm {

struct ServerOptions {
  int world_size = 1;
  std::string token = {};
  std::vector<StoreTerm> terms = {};                  // rank 0's: what the others are held to
  absl::Duration silence = absl::Seconds(4);          // from when on a rank that does not beat is missing
  std::function<LastOperation()> own_last = nullptr;  // rank 0's last operation, from any thread
};

// Everything is under mutex_; reactors are finished outside of it, by whoever took them off the service's lists.
class RendezvousService final : public rendezvous::Rendezvous::CallbackService {
 public:
  explicit RendezvousService(ServerOptions options)
      : options_(std::move(options)), roll_(options_.world_size, options_.silence) {}

  // See RendezvousServer.
  void AwaitArrivals(absl::Duration limit) {
    AwaitThat(limit, [this] {
      const std::vector<int> not_come = roll_.NotCome();
      return std::all_of(not_come.begin(), not_come.end(), [this](int rank) { return refused_.contains(rank); });
    });
  }
  void AwaitDepartures(absl::Duration limit) {
    AwaitThat(limit, [this] { return !roll_.OthersHere(0, absl::Now()); });
  }
  // Ends every call that waits, and every attendance, and tells them who is missing.
  void Close();

 private:
  class Waiter;      // a call that waits: for keys, or for everybody to come
  class Attendance;  // a rank's stream of beats

  // gRPC's.
  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const rendezvous::JoinRequest* request,
                                 rendezvous::JoinReply* reply) override;
  grpc::ServerUnaryReactor* Set(grpc::CallbackServerContext* context, const rendezvous::SetRequest* request,
                                rendezvous::SetReply* reply) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const rendezvous::GetRequest* request,
                                rendezvous::GetReply* reply) override;
  grpc::ServerUnaryReactor* Wait(grpc::CallbackServerContext* context, const rendezvous::WaitRequest* request,
                                 rendezvous::WaitReply* reply) override;
  grpc::ServerUnaryReactor* Add(grpc::CallbackServerContext* context, const rendezvous::AddRequest* request,
                                rendezvous::AddReply* reply) override;
  grpc::ServerUnaryReactor* Missing(grpc::CallbackServerContext* context, const rendezvous::MissingRequest* request,
                                    rendezvous::MissingReply* reply) override;
  grpc::ServerBidiReactor<rendezvous::Beat, rendezvous::Pulse>* Attend(grpc::CallbackServerContext* context) override;

  absl::Status CheckCaller(const grpc::CallbackServerContext& context);
  absl::Status CheckJoin(const rendezvous::JoinRequest& request) const;
  absl::Status TakeBeat(const rendezvous::Beat& beat, int& rank);
  void EndAttendance(Attendance& attendance, int rank, bool farewell);
  bool Forget(Waiter& waiter);
  void KeyChanged(const std::string& key);
  std::set<Waiter*> TakeJoiners();

  template <class Condition>
  void AwaitThat(absl::Duration limit, Condition condition) {
    const absl::Time end = absl::Now() + limit;
    std::unique_lock<std::mutex> lock(mutex_);
    // Silence comes without a signal: hence never for long.
    while (!condition() && absl::Now() < end) changed_.wait_for(lock, std::chrono::milliseconds(20));
  }

  const ServerOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Roll roll_;
  Values values_;
  absl::Status disagreement_;
  std::set<int> refused_;  // ranks that were told of one
  bool closed_ = false;
  std::set<Waiter*> joiners_;
  std::set<Waiter*> waiters_;
  std::set<Attendance*> attendances_;
  absl::Time last_refusal_ = absl::InfinitePast();
};

}  // namespace zeroshard::comm
