// PeerLines: what ranks tell each other about themselves, beside the data: that they take leave, or that they gave up, and why; and,
// asked by one that has waited too long, what they do and for whom they wait.
//
// One connection to each peer and one thread that listens to all. A line that ends without a word means that the peer's process
// is gone: killed, crashed, or a zombie; the system closes it within milliseconds. A peer that is stopped answers nothing.
//
// Example:
//   PeerLines lines(rank, std::move(sockets), [](int peer, const absl::Status& why) { ... });
//   lines.GiveUp(absl::FailedPreconditionError("rank 2: ..."));    // all peers are told
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/gloo/peer_connections.h"
#include "zeroshard/comm/operation_header.h"

namespace zeroshard::backends {

class PeerLines {
 public:
  enum class State : uint8_t { kHere, kLeft, kFailed };
  // On the listening thread: `peer` failed (kUnavailable its process is gone; or as it gave up, with its words) or left (OK).
  using Heard = std::function<void(int peer, const absl::Status& why)>;

  // lines[i] leads to rank i; the one at `rank` is empty.
  PeerLines(int rank, std::vector<Socket> lines, Heard heard);
  // Stops listening, and closes the lines. Says nothing.
  ~PeerLines();

  // Tell all peers. Never block; only the first word of this rank counts.
  void TakeLeave() { Say(Word::kLeave, absl::OkStatus()); }
  void GiveUp(const absl::Status& why) { Say(Word::kGiveUp, why); }

  // What this rank does, and for which peer it waits (-1: none), for those that ask. From any thread; allocate nothing.
  void Doing(const comm::OperationHeader& operation);
  void WaitsFor(int peer) { waits_for_.store(peer, std::memory_order_relaxed); }

  // Why `peer` is late, as far as it and those for whom it waits in turn can say: "rank 1 does not answer; rank 2 waits for it".
  // Holds the caller for some tenths of a second.
  std::string WhyLate(int peer);

  State state(int peer) const;
  // Why `peer` failed; OK where it has not. Waits up to `patience` while it is kHere: its last word may be on its way.
  absl::Status WhyFailed(int peer, absl::Duration patience) const;

 private:
  enum class Word : uint32_t { kLeave = 1, kGiveUp = 2, kAsk = 3, kAnswer = 4 };
  // Questions of one line: with its answers and the last word they fit into a socket's smallest buffer.
  static constexpr int kMostQuestions = 3;

  // What travels, of fixed size.
  struct Message {
    char magic[8];
    uint32_t word;
    int32_t code;  // of why it gave up; an answer's: for whom it waits
    uint32_t text_bytes;
    char text[492];
  };
  static_assert(sizeof(Message) == 512);

  struct Peer {
    Socket line;
    State state = State::kHere;
    absl::Status why;
    Message message = {};  // as far as it has come
    size_t have = 0;
    int questions = 0;  // put to it
    int answered = 0;   // by this rank
    bool answers = false;
    int waits_for = -1;
    std::string doing = {};
  };

  void Say(Word word, const absl::Status& why);
  static Message MakeMessage(Word word, int32_t code, absl::string_view text);
  // Whether `peer` answers.
  bool Ask(int peer);
  void Answer(Peer& peer);
  void Listen();
  // Reads what `peer` says; gives true once it has ended.
  bool Hear(int peer);
  bool HearOfWaiting(Peer& peer);
  static bool IsMessage(const Message& message);
  absl::Status Meaning(int peer, const Message& message, State& state) const;
  void Conclude(int peer, State state, const absl::Status& why);

  const int rank_;
  const Heard heard_;
  std::vector<Peer> peers_;
  Socket stop_;  // an eventfd
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool said_ = false;
  comm::OperationHeader doing_;
  std::atomic<int> waits_for_{-1};
  std::thread thread_;
};

}  // namespace zeroshard::backends
