#include "zeroshard/comm/rendezvous/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/create_channel_posix.h"
#include "zeroshard/comm/rendezvous/wire.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

// At the end of a run that failed nobody waits long for news of the others.
constexpr absl::Duration kMostForNews = absl::Seconds(1);
constexpr absl::Duration kBetweenAsks = absl::Milliseconds(100);
constexpr int kAsks = 4;
constexpr absl::Duration kMostForFarewell = absl::Seconds(2);
// Whoever looks for a value has others to look at.
constexpr absl::Duration kMostForALook = absl::Seconds(20);
// What each further call of a rank 0 may take from which nothing has been heard for the whole patience: callers make several.
constexpr absl::Duration kMostOfTheSilent = absl::Seconds(1);

std::shared_ptr<grpc::Channel> ChannelOver(Socket connection) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxStoreValueBytes) + (1 << 16));
  return grpc::CreateCustomInsecureChannelFromFd("rendezvous", connection.release(), arguments);
}

bool FromTransport(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace

RendezvousClient::RendezvousClient(Socket connection, ClientOptions options)
    : options_(std::move(options)),
      stub_(rendezvous::Rendezvous::NewStub(ChannelOver(std::move(connection)))),
      rank_zero_heard_(absl::Now()) {}

RendezvousClient::~RendezvousClient() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    stop_ = true;
    wake_.notify_all();
    // A rank 0 that is stopped answers no farewell.
    wake_.wait_for(lock, absl::ToChronoNanoseconds(kMostForFarewell), [this] { return !beating_; });
    if (beating_) attendance_.TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

void RendezvousClient::Prepare(grpc::ClientContext& context, absl::Time deadline) const {
  context.AddMetadata(kTokenMetadata, options_.token);
  context.set_deadline(absl::ToChronoTime(deadline));
}

template <class Request, class Reply>
absl::Status RendezvousClient::Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                                    const Request& request, Reply& reply, absl::Time deadline, const char* what) {
  grpc::ClientContext context;
  Prepare(context, deadline);
  const absl::Status status = FromGrpc((*stub_.*method)(&context, request, &reply));
  if (status.ok()) return status;
  const std::string said(status.message());
  if (absl::IsUnavailable(status) && !said.starts_with("rank 0 gave up")) {
    return absl::UnavailableError(
        absl::StrCat(what, ": rank 0, which holds the rendezvous at ", options_.where, ", is gone (", said, ")"));
  }
  return absl::Status(status.code(), absl::StrCat(what, " at the rendezvous ", options_.where, ": ", said));
}

absl::Status RendezvousClient::Join(const StoreMember& member, absl::Time deadline) {
  rendezvous::JoinRequest request;
  request.set_rank(member.rank);
  request.set_world_size(member.world_size);
  for (const StoreTerm& term : member.terms) {
    rendezvous::Term& wire = *request.add_terms();
    wire.set_name(term.name);
    wire.set_value(term.value);
  }
  rendezvous::JoinReply reply;
  const absl::Status status = Call(&Stub::Join, request, reply, deadline, "join");
  if (!absl::IsDeadlineExceeded(status)) return status;
  absl::Status asked;
  const std::string who = AskWhoIsMissing(asked);
  return absl::DeadlineExceededError(absl::StrCat("the rendezvous at ", options_.where, ": after ",
                                                  absl::FormatDuration(member.timeout), " ",
                                                  who.empty() ? "not all ranks have come" : who));
}

absl::Time RendezvousClient::AnswerBy() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::max(rank_zero_heard_ + options_.patience, absl::Now() + kMostOfTheSilent);
}

absl::Status RendezvousClient::Set(std::string_view key, std::string_view value) {
  rendezvous::SetRequest request;
  request.set_key(std::string(key));
  request.set_value(std::string(value));
  rendezvous::SetReply reply;
  return Call(&Stub::Set, request, reply, AnswerBy(), "set");
}

absl::StatusOr<std::optional<std::string>> RendezvousClient::Get(std::string_view key) {
  rendezvous::GetRequest request;
  request.set_key(std::string(key));
  rendezvous::GetReply reply;
  ZS_RETURN_IF_ERROR(Call(&Stub::Get, request, reply, std::min(AnswerBy(), absl::Now() + kMostForALook), "get"));
  if (!reply.found()) return std::optional<std::string>();
  return std::optional<std::string>(std::move(*reply.mutable_value()));
}

absl::StatusOr<int64_t> RendezvousClient::Add(std::string_view key, int64_t delta) {
  rendezvous::AddRequest request;
  request.set_key(std::string(key));
  request.set_delta(delta);
  rendezvous::AddReply reply;
  ZS_RETURN_IF_ERROR(Call(&Stub::Add, request, reply, AnswerBy(), "add"));
  return reply.sum();
}

absl::Status RendezvousClient::Wait(std::vector<std::string>& keys, absl::Duration timeout) {
  rendezvous::WaitRequest request;
  for (const std::string& key : keys) request.add_keys(key);
  rendezvous::WaitReply reply;
  request.set_at_once(timeout <= absl::ZeroDuration());
  const absl::Time deadline = request.at_once() ? AnswerBy() : absl::Now() + timeout;
  absl::Status status = Call(&Stub::Wait, request, reply, deadline, "wait");
  if (absl::IsDeadlineExceeded(status) && !request.at_once()) {
    // Which of them are there after all.
    request.set_at_once(true);
    status = Call(&Stub::Wait, request, reply, absl::Now() + kMostForNews, "wait");
    if (absl::IsDeadlineExceeded(status)) return absl::OkStatus();  // All are missing, and rank 0 with them.
  }
  ZS_RETURN_IF_ERROR(status);
  keys.assign(reply.missing().begin(), reply.missing().end());
  return absl::OkStatus();
}

LastOperation RendezvousClient::last() const {
  std::shared_ptr<const device::Recorder> recorder;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    recorder = recorder_;
  }
  return recorder == nullptr ? LastOperation() : LastOf(recorder->LastOperation());
}

void RendezvousClient::Follow(std::shared_ptr<const device::Recorder> recorder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  recorder_ = std::move(recorder);
}

std::string RendezvousClient::RankZeroIsMissing(std::string_view how) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return absl::StrCat("rank 0 is missing (", std::string(how), ")", kItsLastOperation, Describe(rank_zeros_last_));
}

std::string RendezvousClient::AskWhoIsMissing(absl::Status& status) {
  grpc::ClientContext context;
  Prepare(context, absl::Now() + kMostForNews);
  rendezvous::MissingReply reply;
  status = FromGrpc(stub_->Missing(&context, {}, &reply));
  return reply.text();
}

std::string RendezvousClient::WhoIsMissing() {
  for (int ask = 0; ask < kAsks; ++ask) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (farewell_.has_value()) return *farewell_;
    }
    absl::Status status;
    const std::string who = AskWhoIsMissing(status);
    if (!who.empty()) return who;
    if (absl::IsDeadlineExceeded(status)) {
      absl::Duration silent;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        silent = absl::Now() - rank_zero_heard_;
      }
      return RankZeroIsMissing(absl::StrCat("its rendezvous has been silent for ",
                                            absl::FormatDuration(absl::Trunc(silent, absl::Milliseconds(100)))));
    }
    // What a failing operation saw may be a moment ahead of what the rendezvous has seen.
    std::unique_lock<std::mutex> lock(mutex_);
    hurry_ = absl::IsUnavailable(status);
    wake_.notify_all();
    lock.unlock();
    absl::SleepFor(kBetweenAsks);
    lock.lock();
    if (rank_zero_gone_ && !farewell_.has_value()) break;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (farewell_.has_value()) return *farewell_;
    if (!rank_zero_gone_) return "";
  }
  return RankZeroIsMissing("its process or its network ended");
}

void RendezvousClient::Attend() {
  Prepare(attendance_, absl::InfiniteFuture());
  beating_ = true;
  thread_ = std::thread([this] { BeatUntilTold(); });
}

bool RendezvousClient::BeatOnce(grpc::ClientReaderWriter<rendezvous::Beat, rendezvous::Pulse>& stream, bool farewell) {
  rendezvous::Beat beat;
  beat.set_rank(options_.rank);
  *beat.mutable_last() = ToWire(last());
  beat.set_farewell(farewell);
  rendezvous::Pulse pulse;
  if (!stream.Write(beat) || !stream.Read(&pulse)) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  rank_zeros_last_ = FromWire(pulse.last());
  rank_zero_heard_ = absl::Now();
  return true;
}

void RendezvousClient::BeatUntilTold() {
  const auto stream = stub_->Attend(&attendance_);
  bool listened_to = BeatOnce(*stream, /*farewell=*/false);
  std::unique_lock<std::mutex> lock(mutex_);
  while (listened_to && !stop_) {
    wake_.wait_for(lock, absl::ToChronoNanoseconds(options_.beat), [this] { return stop_ || hurry_; });
    hurry_ = false;
    if (stop_) break;
    lock.unlock();
    listened_to = BeatOnce(*stream, /*farewell=*/false);
    lock.lock();
  }
  lock.unlock();
  if (listened_to) BeatOnce(*stream, /*farewell=*/true);
  stream->WritesDone();
  const absl::Status ended = FromGrpc(stream->Finish());
  lock.lock();
  if (absl::IsAborted(ended)) farewell_ = std::string(ended.message());
  rank_zero_gone_ = FromTransport(ended);
  beating_ = false;
  wake_.notify_all();
}

}  // namespace zeroshard::comm
