// Endpoint: one rank's place in an in-process group: what was sent to it, what it wants to receive, and how it fares.
//
// Sends and receives meet in the receiver's endpoint, under its lock, and are copied outside it by whoever came second (by the
// receiver, where the message is delayed). A record belongs to the rank that posted it.
//
// Example: see in_process_transport.cc.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "zeroshard/comm/late_chain.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/comm/transport.h"
#include "zeroshard/comm/wait_board.h"

namespace zeroshard::backends {

class Endpoint;

// Records and messages for what may be under way between a rank and its peers at once: all sends and receives of each of them, of as
// many peers as a schedule talks to. Made at the start, so that nothing is allocated later.
inline size_t UsualTransfers(int world_size) {
  constexpr int kMostPeers = 32;
  return static_cast<size_t>(std::min(world_size, kMostPeers) * 2 * (comm::kMaxInFlight + 2));
}

// A send or receive that a rank posted.
struct Record {
  enum State : uint32_t { kFree, kPosted, kCopying, kDone };

  Endpoint* owner = nullptr;
  bool sends = false;
  int peer = 0;
  comm::Channel channel = comm::Channel::kControl;
  void* data = nullptr;
  int64_t bytes = 0;
  int64_t other_bytes = 0;  // what the other side had, once they met
  std::atomic<uint32_t> state{kFree};
};

// What was sent and not yet received.
struct Message {
  int source = 0;
  comm::Channel channel = comm::Channel::kControl;
  Record* sender = nullptr;  // null: the bytes are here
  int64_t bytes = 0;
  comm::Deadline ripe;  // arrives then
  std::array<std::byte, comm::kEagerBytes> eager;
};

class Endpoint {
 public:
  using Clock = std::chrono::steady_clock;

  // Messages call it `number`; `waits`: the rank's, of all groups.
  Endpoint(int rank, int world_size, int number, std::shared_ptr<comm::WaitBoard> waits);
  int rank() const { return rank_; }
  int number() const { return number_; }
  const std::shared_ptr<comm::WaitBoard>& waits() const { return waits_; }

  // By the sender's thread: a message from `record`'s owner, which arrives at `ripe`. Ends the record if it is eager.
  void Put(Record& record, Clock::time_point ripe);
  // By this rank's thread.
  void Want(Record& record);
  // Holds this rank's thread until `record` has ended, this rank has failed, `peer` has left with it open, or the deadline: then
  // gives `late`'s answer.
  absl::Status Await(Record& record, const Endpoint& peer, Clock::time_point deadline,
                     absl::FunctionRef<absl::Status()> late);
  // Takes back a record that nobody has met yet. By its owner's thread; `this` is the receiver's endpoint.
  void TakeBack(Record& record);

  // This rank failed, or was told that a peer did. The first cause stays. Gives whether it was the first.
  bool Fail(const absl::Status& why);
  absl::Status failure() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // Peers leave this rank's memory alone: none begins to touch it any more.
  void CloseMemory() { closed_.store(true); }
  bool BeginAccess();
  void EndAccess();
  // Holds this rank's thread until nobody copies to or from its records, nor touches its memory.
  void AwaitQuiet(const std::vector<std::unique_ptr<Record>>& records);

  void Leave() { left_.store(true, std::memory_order_release); }
  bool left() const { return left_.load(std::memory_order_acquire); }
  void Wake();

  // What this rank says when it is asked why it is late.
  void Doing(const comm::OperationHeader& operation);
  comm::Testimony Testify() const;
  // "all-reduce #7 (...)", "none".
  std::string Last() const;

  // Injected faults, from any thread. A dead rank sends nothing; a frozen one stands still where it next calls StandStill, until
  // it is thawed, the time is up, or its memory is closed.
  void Die() { dead_.store(true, std::memory_order_release); }
  bool dead() const { return dead_.load(std::memory_order_acquire); }
  void Freeze(Clock::time_point until);
  void Thaw();
  void StandStill();

  // Who wants to know of a peer's failure; null: nobody any more. Tell calls it, at most once.
  void Listen(std::function<void(int, const absl::Status&)> listener);
  void Tell(int rank, const absl::Status& why);

 private:
  // A message and a receive that met: to be copied without the lock.
  struct Meeting {
    Message* message;
    Record* receiver;
  };
  void AddMessage();
  std::optional<Meeting> FindMeeting(int source, comm::Channel channel, Clock::time_point now);
  std::optional<Meeting> FindAnyMeeting(Clock::time_point now, Clock::time_point* next);
  void Deliver(Meeting meeting, std::unique_lock<std::mutex>& lock);
  static void End(Record& record);

  const int rank_;
  const int number_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Message*> messages_;  // in order of arrival
  std::vector<Record*> receives_;   // in order of posting
  std::vector<std::unique_ptr<Message>> all_messages_;
  std::vector<Message*> free_messages_;
  bool delayed_ = false;  // some message came with a delay
  absl::Status failure_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> left_{false};
  std::atomic<bool> closed_{false};
  std::atomic<int> touching_{0};
  std::atomic<int> waits_for_{-1};
  const std::shared_ptr<comm::WaitBoard> waits_;
  comm::WaitPlace place_;
  comm::OperationHeader doing_;
  std::atomic<bool> dead_{false};
  std::atomic<bool> frozen_{false};
  Clock::time_point frozen_until_;

  std::mutex listener_mutex_;
  std::function<void(int, const absl::Status&)> listener_;
};

}  // namespace zeroshard::backends
