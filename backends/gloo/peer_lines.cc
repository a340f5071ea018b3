#include "zeroshard/backends/gloo/peer_lines.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace zeroshard::backends {
namespace {

constexpr char kMagic[8] = {'z', 's', 'l', 'i', 'n', 'e', '\n', 2};

// How long a peer may take to answer: its listening thread does nothing else.
constexpr std::chrono::milliseconds kPatience{500};

// What a peer may say it gave up for; anything else is a peer that is gone, as far as others are concerned.
absl::StatusCode PeerCode(int32_t code) {
  return code == static_cast<int32_t>(absl::StatusCode::kFailedPrecondition) ? absl::StatusCode::kFailedPrecondition
                                                                             : absl::StatusCode::kUnavailable;
}

}  // namespace

PeerLines::PeerLines(int rank, std::vector<Socket> lines, Heard heard)
    : rank_(rank), heard_(std::move(heard)), peers_(lines.size()), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t i = 0; i < lines.size(); ++i) peers_[i].line = std::move(lines[i]);
  thread_ = std::thread([this] { Listen(); });
}

PeerLines::~PeerLines() {
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
  doing_ = operation;
}

bool PeerLines::Ask(int peer) {
  Peer& entry = peers_[static_cast<size_t>(peer)];
  std::unique_lock<std::mutex> lock(mutex_);
  if (entry.state != State::kHere || !entry.line || entry.questions == kMostQuestions) return false;
  ++entry.questions;
  entry.answers = false;
  const Message message = MakeMessage(Word::kAsk, 0, "");
  send(entry.line.get(), &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
  changed_.wait_for(lock, kPatience, [&] { return entry.answers || entry.state != State::kHere; });
  return entry.answers;
}

void PeerLines::Answer(Peer& peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (peer.answered++ >= kMostQuestions) return;
  const bool begun = doing_.magic != 0;
  const Message message =
      MakeMessage(Word::kAnswer, waits_for_.load(std::memory_order_relaxed),
                  begun ? absl::StrCat("was last in ", comm::Describe(doing_)) : "has begun no operation");
  send(peer.line.get(), &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::string PeerLines::WhyLate(int peer) {
  std::string chain;
  std::vector<bool> seen(peers_.size(), false);
  for (int suspect = peer;;) {
    seen[static_cast<size_t>(suspect)] = true;
    if (!Ask(suspect)) {
      const absl::Status why = WhyFailed(suspect, absl::ZeroDuration());
      if (!why.ok()) return absl::StrCat(why.message(), chain);
      if (state(suspect) == State::kLeft) return absl::StrCat("rank ", suspect, " has left", chain);
      return absl::StrCat("rank ", suspect, " does not answer: its process is stopped, or cut off", chain);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    const Peer& entry = peers_[static_cast<size_t>(suspect)];
    const int next = entry.waits_for;
    if (next < 0 || next >= static_cast<int>(peers_.size()) || next == rank_ || seen[static_cast<size_t>(next)]) {
      return absl::StrCat("rank ", suspect, " answers, and ", entry.doing, chain);
    }
    chain = absl::StrCat("; rank ", suspect, " waits for it", chain);
    suspect = next;
  }
}

PeerLines::State PeerLines::state(int peer) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return peers_[static_cast<size_t>(peer)].state;
}

absl::Status PeerLines::WhyFailed(int peer, absl::Duration patience) const {
  const Peer& entry = peers_[static_cast<size_t>(peer)];
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoMilliseconds(patience), [&] { return entry.state != State::kHere; });
  return entry.why;
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
  for (;;) {
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) {
      LOG(ERROR) << "rank " << rank_ << " cannot listen to its peers: " << strerror(errno);
      return;
    }
    if (entries.back().revents != 0) return;
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
    Conclude(rank, State::kFailed,
             absl::UnavailableError(absl::StrCat("rank ", rank, " is gone: its process ended, or it left without a word (",
                                                 got == 0 ? "connection closed" : strerror(errno), ")")));
    return true;
  }
  peer.have += static_cast<size_t>(got);
  if (peer.have < sizeof(Message)) return false;
  peer.have = 0;
  if (HearOfWaiting(peer)) return false;
  State state = State::kFailed;
  const absl::Status why = Meaning(rank, peer.message, state);
  Conclude(rank, state, why);
  return true;
}

// A question, or an answer: no last word.
bool PeerLines::HearOfWaiting(Peer& peer) {
  const Message& message = peer.message;
  if (!IsMessage(message)) return false;
  if (message.word == static_cast<uint32_t>(Word::kAsk)) {
    Answer(peer);
    return true;
  }
  if (message.word != static_cast<uint32_t>(Word::kAnswer)) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  peer.answers = true;
  peer.waits_for = message.code;
  peer.doing = absl::Utf8SafeCHexEscape(absl::string_view(message.text, message.text_bytes));
  changed_.notify_all();
  return true;
}

bool PeerLines::IsMessage(const Message& message) {
  return std::memcmp(message.magic, kMagic, sizeof(kMagic)) == 0 && message.text_bytes <= sizeof(message.text);
}

absl::Status PeerLines::Meaning(int peer, const Message& message, State& state) const {
  state = State::kFailed;
  if (!IsMessage(message))
    return absl::UnavailableError(absl::StrCat("rank ", peer, " sent bytes that are no message of its line"));
  if (message.word == static_cast<uint32_t>(Word::kLeave)) {
    state = State::kLeft;
    return absl::OkStatus();
  }
  const absl::string_view text(message.text, message.text_bytes);
  return absl::Status(PeerCode(message.code), absl::StrCat("rank ", peer, " gave up: ", absl::Utf8SafeCHexEscape(text)));
}

void PeerLines::Conclude(int peer, State state, const absl::Status& why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    peers_[static_cast<size_t>(peer)].state = state;
    peers_[static_cast<size_t>(peer)].why = why;
    changed_.notify_all();
  }
  heard_(peer, why);
}

}  // namespace zeroshard::backends
