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

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace zeroshard::backends {
namespace {

constexpr char kMagic[8] = {'z', 's', 'l', 'i', 'n', 'e', '\n', 2};

}  // namespace

PeerLines::PeerLines(const ConnectOptions& options, std::vector<Socket> lines, Heard heard)
    : Lines(options, std::move(heard)), peers_(lines.size()), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t i = 0; i < lines.size(); ++i) peers_[i].line = std::move(lines[i]);
  thread_ = std::thread([this] { Listen(); });
}

PeerLines::~PeerLines() { StopListening(); }

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
  doing_ = operation;
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
  for (;;) {
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) {
      LOG(ERROR) << "rank " << Number(rank_) << " cannot listen to its peers: " << strerror(errno);
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

// A question, or an answer: no last word.
bool PeerLines::HearOfWaiting(Peer& peer) {
  const Message& message = peer.message;
  if (!IsMessage(message)) return false;
  if (message.word == static_cast<uint32_t>(Word::kAsk)) {
    Reply(peer);
    return true;
  }
  if (message.word != static_cast<uint32_t>(Word::kAnswer)) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
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
