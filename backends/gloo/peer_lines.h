// PeerLines: lines over TCP.
//
// One connection to each peer and one thread that listens to all. A line that ends without a word means that the peer's process
// is gone: killed, crashed, or a zombie; the system closes it within milliseconds. So that others know what it did last, a rank
// tells them at once of its first operation, and some times a second of the latest; what both have begun each knows by itself.
//
// Example:
//   PeerLines lines(options, std::move(sockets), [](int peer, const absl::Status& why) { ... });
//   lines.GiveUp(absl::FailedPreconditionError("rank 2: ..."));    // all peers are told
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "zeroshard/backends/gloo/lines.h"
#include "zeroshard/backends/gloo/peer_connections.h"
#include "zeroshard/comm/operation_header.h"

namespace zeroshard::backends {

class PeerLines final : public Lines {
 public:
  // lines[i] leads to rank i; the one at options.rank is empty.
  PeerLines(const ConnectOptions& options, std::vector<Socket> lines, Heard heard);
  // Stops listening, and closes the lines. Says nothing.
  ~PeerLines() override;

  void TakeLeave() override { Say(Word::kLeave, absl::OkStatus()); }
  void GiveUp(const absl::Status& why) override { Say(Word::kGiveUp, why); }
  void Doing(const comm::OperationHeader& operation) override;
  void Met(std::span<const int> peers) override;
  std::string LastOf(int peer) const override;

  // Stops listening; the lines stay open.
  void StopListening();

 private:
  enum class Word : uint32_t { kLeave = 1, kGiveUp = 2, kAsk = 3, kAnswer = 4, kDoing = 5 };
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
    Message message = {};  // as far as it has come
    size_t have = 0;
    int questions = 0;  // put to it
    int answered = 0;   // by this rank
    bool answers = false;
    Answer answer = {};
    comm::OperationHeader doing = {};  // as it said last
    absl::Time told;                   // when
    comm::OperationHeader met = {};    // what this rank began last that it had begun too
  };

  void NoteWait(int peer) override { waits_for_.store(peer, std::memory_order_relaxed); }
  void Say(Word word, const absl::Status& why);
  static Message MakeMessage(Word word, int32_t code, absl::string_view text);
  bool Ask(int peer, Answer& answer) override;
  void Reply(Peer& peer);
  void TellDoing();
  void Listen();
  // Reads what `peer` says; gives true once it has ended.
  bool Hear(int peer);
  bool HearOfWaiting(Peer& peer);
  static bool IsMessage(const Message& message);
  void End(int rank, State state, const absl::Status& why);
  absl::Status Meaning(int peer, const Message& message, State& state) const;

  std::vector<Peer> peers_;
  Socket stop_;  // an eventfd
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool said_ = false;
  comm::OperationHeader doing_;
  bool untold_ = false;  // peers do not know of it
  std::atomic<int> waits_for_{-1};
  std::thread thread_;
};

}  // namespace zeroshard::backends
