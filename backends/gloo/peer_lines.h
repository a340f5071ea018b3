// PeerLines: what ranks tell each other about themselves, beside the data: that they take leave, or that they gave up, and why.
//
// One connection to each peer and one thread that listens to all. A line that ends without a word means that the peer's process
// is gone: killed, crashed, or a zombie; the system closes it within milliseconds. A peer that is stopped says nothing.
//
// Example:
//   PeerLines lines(rank, std::move(sockets), [](int peer, const absl::Status& why) { ... });
//   lines.GiveUp(absl::FailedPreconditionError("rank 2: ..."));    // all peers are told
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/gloo/peer_connections.h"

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

  State state(int peer) const;
  // Why `peer` failed; OK where it has not. Waits up to `patience` while it is kHere: its last word may be on its way.
  absl::Status WhyFailed(int peer, absl::Duration patience) const;

 private:
  enum class Word : uint32_t { kLeave = 1, kGiveUp = 2 };

  // What travels: at most one each way on a line, of fixed size.
  struct Message {
    char magic[8];
    uint32_t word;
    int32_t code;
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
  };

  void Say(Word word, const absl::Status& why);
  void Listen();
  // Reads what `peer` says; gives true once it has ended.
  bool Hear(int peer);
  absl::Status Meaning(int peer, const Message& message, State& state) const;
  void Conclude(int peer, State state, const absl::Status& why);

  const int rank_;
  const Heard heard_;
  std::vector<Peer> peers_;
  Socket stop_;  // an eventfd
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool said_ = false;
  std::thread thread_;
};

}  // namespace zeroshard::backends
