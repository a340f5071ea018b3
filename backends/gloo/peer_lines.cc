#include "zeroshard/backends/gloo/peer_lines.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "glog/logging.h"

namespace zeroshard::backends {
namespace {

constexpr char kMagic[8] = {'z', 's', 'l', 'i', 'n', 'e', '\n', 3};

// How often peers are told what this rank does, where that changes: fifty messages a second at the most.
int TellMs(size_t peers) { return static_cast<int>(std::max<size_t>(200, 20 * peers)); }

}  // namespace

PeerLines::PeerLines(const ConnectOptions& options, std::vector<Socket> lines, Heard heard)
    : Lines(options, std::move(heard)), peers_(lines.size()), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t i = 0; i < lines.size(); ++i) peers_[i].line = std::move(lines[i]);
  thread_ = std::thread([this] { Listen(); });
}

// What has come is read, or the system would take back what peers have not heard yet.
PeerLines::~PeerLines() {
  StopListening();
  Message unheard;
  for (const Peer& peer : peers_) {
    while (peer.line && recv(peer.line.get(), &unheard, sizeof(unheard), MSG_DONTWAIT) > 0) continue;
  }
}

void PeerLines::StopListening() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) != sizeof(one)) LOG(ERROR) << "eventfd: " << strerror(errno);
  thread_.join();
}

void PeerLines::Say(Word word, const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(said_, true)) return;
  const Message message = MakeMessage(word, static_cast<int32_t>(why.code()), why.message());
  for (Peer& peer : peers_) {
    // It fits in the send buffer. A peer that is gone does not hear it.
    if (peer.line) send(peer.line.get(), &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

PeerLines::Message PeerLines::MakeMessage(Word word, int32_t code, absl::string_view text) {
  Message message = {};
  std::memcpy(message.magic, kMagic, sizeof(kMagic));
  message.word = static_cast<uint32_t>(word);
  message.code = code;
  message.text_bytes = static_cast<uint32_t>(std::min(text.size(), sizeof(message.text)));
  std::copy_n(text.data(), message.text_bytes, message.text);
  return message;
}

void PeerLines::Doing(const comm::OperationHeader& operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool first = doing_.magic == 0;
  doing_ = operation;
  untold_ = true;
  if (first) TellDoing();
}

void PeerLines::Met(std::span<const int> peers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const int peer : peers) peers_[static_cast<size_t>(peer)].met = doing_;
}

// With the lock. A peer that has not taken what it was told before is told nothing: its last word is to find room.
void PeerLines::TellDoing() {
  if (said_ || !std::exchange(untold_, false)) return;
  const Message message =
      MakeMessage(Word::kDoing, 0, absl::string_view(reinterpret_cast<const char*>(&doing_), sizeof(doing_)));
  for (const Peer& peer : peers_) {
    int untaken_bytes = 0;
    if (!peer.line || ioctl(peer.line.get(), SIOCOUTQ, &untaken_bytes) != 0 || untaken_bytes > 0) continue;
    send(peer.line.get(), &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

std::string PeerLines::LastOf(int rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.met.magic != 0 && peer.met.sequence >= peer.doing.sequence) return comm::DescribeLast(peer.met);
  if (peer.doing.magic == 0) return "none of which it told";
  return absl::StrCat(comm::DescribeLast(peer.doing), ", as it said ",
                      absl::StrFormat("%.1fs", absl::ToDoubleSeconds(absl::Now() - peer.told)), " ago");
}

bool PeerLines::Ask(int peer, Answer& answer) {
  Peer& entry = peers_[static_cast<size_t>(peer)];
  std::unique_lock<std::mutex> lock(mutex_);
  if (!entry.line || entry.questions == kMostQuestions) return false;
  ++entry.questions;
  entry.answers = false;
  const Message message = MakeMessage(Word::kAsk, 0, "");
  send(entry.line.get(), &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
  changed_.wait_for(lock, absl::ToChronoMilliseconds(kPatience),
                    [&] { return entry.answers || state(peer) != State::kHere; });
  answer = entry.answer;
  return entry.answers;
}

void PeerLines::Reply(Peer& peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (peer.answered++ >= kMostQuestions) return;
  const Message message =
      MakeMessage(Word::kAnswer, waits_for_.load(std::memory_order_relaxed), LastIn(doing_, Elsewhere()));
  send(peer.line.get(), &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void PeerLines::Listen() {
  std::vector<pollfd> entries;
  std::vector<int> ranks;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].line) continue;
    entries.push_back({.fd = peers_[i].line.get(), .events = POLLIN, .revents = 0});
    ranks.push_back(static_cast<int>(i));
  }
  entries.push_back({.fd = stop_.get(), .events = POLLIN, .revents = 0});
  const int tell_ms = TellMs(ranks.size());
  absl::Time tell = absl::Now();
  for (;;) {
    if (poll(entries.data(), entries.size(), tell_ms) < 0 && errno != EINTR) {
      LOG(ERROR) << "rank " << Number(rank_) << " cannot listen to its peers: " << strerror(errno);
      return;
    }
    if (entries.back().revents != 0) return;
    if (const absl::Time now = absl::Now(); now >= tell) {
      tell = now + absl::Milliseconds(tell_ms);
      const std::lock_guard<std::mutex> lock(mutex_);
      TellDoing();
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      // poll leaves out what is negative.
      if (entries[i].revents != 0 && Hear(ranks[i])) entries[i].fd = -1;
    }
  }
}

bool PeerLines::Hear(int rank) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  const ssize_t got =
      recv(peer.line.get(), reinterpret_cast<char*>(&peer.message) + peer.have, sizeof(Message) - peer.have, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    End(rank, State::kFailed, Gone(rank, got == 0 ? "connection closed" : strerror(errno)));
    return true;
  }
  peer.have += static_cast<size_t>(got);
  if (peer.have < sizeof(Message)) return false;
  peer.have = 0;
  if (HearOfWaiting(peer)) return false;
  State state = State::kFailed;
  const absl::Status why = Meaning(rank, peer.message, state);
  End(rank, state, why);
  return true;
}

void PeerLines::End(int rank, State state, const absl::Status& why) {
  Conclude(rank, state, why);
  const std::lock_guard<std::mutex> lock(mutex_);  // Whoever asks has looked, or waits.
  changed_.notify_all();
}

// A question, an answer, or what it does: no last word.
bool PeerLines::HearOfWaiting(Peer& peer) {
  const Message& message = peer.message;
  if (!IsMessage(message)) return false;
  if (message.word == static_cast<uint32_t>(Word::kAsk)) {
    Reply(peer);
    return true;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (message.word == static_cast<uint32_t>(Word::kDoing)) {
    std::memcpy(&peer.doing, message.text, sizeof(peer.doing));
    peer.told = absl::Now();
    return true;
  }
  if (message.word != static_cast<uint32_t>(Word::kAnswer)) return false;
  peer.answers = true;
  peer.answer = {.waits_for = message.code, .doing = std::string(message.text, message.text_bytes)};
  changed_.notify_all();
  return true;
}

bool PeerLines::IsMessage(const Message& message) {
  return std::memcmp(message.magic, kMagic, sizeof(kMagic)) == 0 && message.text_bytes <= sizeof(message.text);
}

absl::Status PeerLines::Meaning(int peer, const Message& message, State& state) const {
  state = State::kFailed;
  if (!IsMessage(message))
    return absl::UnavailableError(absl::StrCat("rank ", Number(peer), " sent bytes that are no message of its line"));
  if (message.word == static_cast<uint32_t>(Word::kLeave)) {
    state = State::kLeft;
    return absl::OkStatus();
  }
  return GaveUp(peer, message.code, std::string_view(message.text, message.text_bytes));
}

}  // namespace zeroshard::backends
