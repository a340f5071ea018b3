#include "zeroshard/comm/rendezvous/service.h"

#include <atomic>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "zeroshard/comm/rendezvous/job_token.h"
#include "zeroshard/comm/rendezvous/wire.h"

namespace zeroshard::comm {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

ServerUnaryReactor* End(CallbackServerContext* context, const absl::Status& status) {
  ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace

class RendezvousService::Waiter final : public ServerUnaryReactor {
 public:
  explicit Waiter(RendezvousService& service) : service_(service) {}
  std::set<std::string, std::less<>> keys;
  int joins = -1;  // the rank that waits for the others

 private:
  void OnDone() override { delete this; }
  void OnCancel() override {
    if (service_.Forget(*this)) Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller waits no longer"));
  }
  RendezvousService& service_;
};

class RendezvousService::Attendance final : public grpc::ServerBidiReactor<rendezvous::Beat, rendezvous::Pulse> {
 public:
  explicit Attendance(RendezvousService& service) : service_(service) { StartRead(&beat_); }
  void Close(const absl::Status& why) { FinishOnce(why); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      service_.EndAttendance(*this, rank_, farewell_);
      return FinishOnce(absl::OkStatus());
    }
    const absl::Status taken = service_.TakeBeat(beat_, rank_);
    if (!taken.ok()) return FinishOnce(taken);
    farewell_ = farewell_ || beat_.farewell();
    if (service_.options_.own_last != nullptr) *pulse_.mutable_last() = ToWire(service_.options_.own_last());
    StartWrite(&pulse_);
  }
  void OnWriteDone(bool /*ok*/) override { StartRead(&beat_); }
  void OnDone() override {
    service_.EndAttendance(*this, rank_, farewell_);
    delete this;
  }
  void FinishOnce(const absl::Status& status) {
    if (!finished_.exchange(true)) Finish(ToGrpc(status));
  }

  RendezvousService& service_;
  rendezvous::Beat beat_;
  rendezvous::Pulse pulse_;
  int rank_ = -1;
  bool farewell_ = false;
  std::atomic<bool> finished_{false};
};

absl::Status RendezvousService::CheckCaller(const CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kTokenMetadata);
  const bool shown = found != context.client_metadata().end() &&
                     SameToken(options_.token, std::string_view(found->second.data(), found->second.size()));
  if (shown) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Now() - last_refusal_ > absl::Seconds(1)) {
    last_refusal_ = absl::Now();
    LOG(WARNING) << "rendezvous: refused a call that does not know the job's token";
  }
  return absl::UnauthenticatedError("the job's token was not shown");
}

absl::Status RendezvousService::CheckJoin(const rendezvous::JoinRequest& request) const {
  if (request.world_size() != options_.world_size || request.rank() < 0 || request.rank() >= options_.world_size) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", request.rank(), " speaks of ", request.world_size(),
                                                      " ranks, rank 0 of ", options_.world_size, " ranks"));
  }
  std::vector<std::string> different;
  for (const StoreTerm& ours : options_.terms) {
    const auto theirs = std::find_if(request.terms().begin(), request.terms().end(),
                                     [&](const rendezvous::Term& term) { return term.name() == ours.name; });
    const std::string value = theirs == request.terms().end() ? "(nothing)" : theirs->value();
    if (value == ours.value) continue;
    different.push_back(
        absl::StrCat("rank ", request.rank(), " has ", ours.name, "=", value, ", rank 0 has ", ours.name, "=", ours.value));
  }
  if (different.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("ranks disagree: ", absl::StrJoin(different, "; ")));
}

std::set<RendezvousService::Waiter*> RendezvousService::TakeJoiners() { return std::exchange(joiners_, {}); }

ServerUnaryReactor* RendezvousService::Join(CallbackServerContext* context, const rendezvous::JoinRequest* request,
                                            rendezvous::JoinReply* /*reply*/) {
  if (const absl::Status known = CheckCaller(*context); !known.ok()) return End(context, known);
  std::set<Waiter*> done;
  std::vector<int> done_ranks;
  absl::Status ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const absl::Status agreed = CheckJoin(*request);
    if (agreed.ok()) {
      if (const absl::Status come = roll_.Come(request->rank(), absl::Now()); !come.ok()) return End(context, come);
    } else {
      if (refused_.size() < static_cast<size_t>(options_.world_size)) refused_.insert(request->rank());
      if (disagreement_.ok()) disagreement_ = agreed;
    }
    changed_.notify_all();
    if (disagreement_.ok() && !roll_.AllCame()) {
      auto* const waiter = new Waiter(*this);
      waiter->joins = request->rank();
      joiners_.insert(waiter);
      return waiter;
    }
    ended = agreed.ok() ? disagreement_ : agreed;
    done = TakeJoiners();
    if (agreed.ok()) done_ranks.push_back(request->rank());
    for (const Waiter* const waiter : done) done_ranks.push_back(waiter->joins);
    if (!ended.ok()) {
      for (const int rank : done_ranks) roll_.Leave(rank, absl::Now());
    }
  }
  for (Waiter* const waiter : done) waiter->Finish(ToGrpc(ended));
  return End(context, ended);
}

ServerUnaryReactor* RendezvousService::Set(CallbackServerContext* context, const rendezvous::SetRequest* request,
                                           rendezvous::SetReply* /*reply*/) {
  absl::Status status = CheckCaller(*context);
  if (status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    status = values_.Set(request->key(), request->value());
  }
  if (status.ok()) KeyChanged(request->key());
  return End(context, status);
}

ServerUnaryReactor* RendezvousService::Get(CallbackServerContext* context, const rendezvous::GetRequest* request,
                                           rendezvous::GetReply* reply) {
  const absl::Status status = CheckCaller(*context);
  if (status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string* const value = values_.Find(request->key());
    reply->set_found(value != nullptr);
    if (value != nullptr) reply->set_value(*value);
  }
  return End(context, status);
}

ServerUnaryReactor* RendezvousService::Add(CallbackServerContext* context, const rendezvous::AddRequest* request,
                                           rendezvous::AddReply* reply) {
  absl::Status status = CheckCaller(*context);
  if (status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const absl::StatusOr<int64_t> sum = values_.Add(request->key(), request->delta());
    status = sum.status();
    if (sum.ok()) reply->set_sum(*sum);
  }
  if (status.ok()) KeyChanged(request->key());
  return End(context, status);
}

ServerUnaryReactor* RendezvousService::Wait(CallbackServerContext* context, const rendezvous::WaitRequest* request,
                                            rendezvous::WaitReply* reply) {
  if (const absl::Status known = CheckCaller(*context); !known.ok()) return End(context, known);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<std::string, std::less<>> missing;
  for (const std::string& key : request->keys()) {
    if (values_.Find(key) == nullptr) missing.insert(key);
  }
  if (missing.empty() || request->at_once() || closed_) {
    for (const std::string& key : missing) reply->add_missing(key);
    return End(context, absl::OkStatus());
  }
  auto* const waiter = new Waiter(*this);
  waiter->keys = std::move(missing);
  waiters_.insert(waiter);
  return waiter;
}

ServerUnaryReactor* RendezvousService::Missing(CallbackServerContext* context, const rendezvous::MissingRequest* /*request*/,
                                               rendezvous::MissingReply* reply) {
  const absl::Status status = CheckCaller(*context);
  if (status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    reply->set_text(roll_.Missing(absl::Now()));
  }
  return End(context, status);
}

grpc::ServerBidiReactor<rendezvous::Beat, rendezvous::Pulse>* RendezvousService::Attend(CallbackServerContext* context) {
  const absl::Status known = CheckCaller(*context);
  auto* const attendance = new Attendance(*this);
  if (!known.ok()) {
    attendance->Close(known);
    return attendance;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  attendances_.insert(attendance);
  return attendance;
}

absl::Status RendezvousService::TakeBeat(const rendezvous::Beat& beat, int& rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (beat.rank() < 0 || beat.rank() >= options_.world_size || (rank >= 0 && rank != beat.rank()) ||
      roll_.state(beat.rank()) == Roll::State::kNotCome) {
    return absl::InvalidArgumentError(absl::StrCat("a beat of rank ", beat.rank(), ", which has not joined on it"));
  }
  rank = beat.rank();
  roll_.Beat(rank, FromWire(beat.last()), absl::Now());
  return absl::OkStatus();
}

void RendezvousService::EndAttendance(Attendance& attendance, int rank, bool farewell) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (attendances_.erase(&attendance) == 0 || rank < 0) return;
  farewell ? roll_.Leave(rank, absl::Now()) : roll_.Lose(rank, absl::Now());
  changed_.notify_all();
}

bool RendezvousService::Forget(Waiter& waiter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (joiners_.erase(&waiter) > 0) {
    roll_.Lose(waiter.joins, absl::Now());
    return true;
  }
  return waiters_.erase(&waiter) > 0;
}

void RendezvousService::KeyChanged(const std::string& key) {
  std::vector<Waiter*> done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
      (*waiter)->keys.erase(key);
      if ((*waiter)->keys.empty()) done.push_back(*waiter);
      waiter = (*waiter)->keys.empty() ? waiters_.erase(waiter) : std::next(waiter);
    }
  }
  for (Waiter* const waiter : done) waiter->Finish(grpc::Status::OK);
}

void RendezvousService::Close() {
  std::set<Waiter*> waiting;
  std::set<Attendance*> attending;
  std::string missing;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    missing = roll_.Missing(absl::Now());
    waiting = std::exchange(waiters_, {});
    waiting.merge(joiners_);
    joiners_.clear();
    attending = attendances_;
    // Under the lock: one that ends by itself comes for it, and is not deleted before.
    for (Attendance* const attendance : attending) attendance->Close(absl::AbortedError(missing));
  }
  const absl::Status gave_up = absl::UnavailableError(absl::StrCat("rank 0 gave up", missing.empty() ? "" : ": ", missing));
  for (Waiter* const waiter : waiting) waiter->Finish(ToGrpc(gave_up));
}

}  // namespace zeroshard::comm
