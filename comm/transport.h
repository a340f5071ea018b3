// Transport: bytes between the ranks of one group, for the schedules that run on host memory.
//
// A backend on host memory implements this and nothing else; everything above (order, sums, headers, deadlines, errors) is
// written once, over it. One thread, the communicator's, calls Send, Receive, Wait and Quiesce; Cancel comes from any thread.
//
// Messages of one sender, one receiver and one channel meet in order: the n-th Send meets the n-th Receive. Nothing is promised
// between channels or between peers. A rank may have up to kMaxInFlight sends and as many receives posted and not yet waited for,
// on each channel to or from each peer; every transfer is waited for exactly once. A Send may end only when its Receive is posted;
// one of up to kEagerBytes ends without.
//
// Example: both ranks give and take, in an order that cannot block.
//   Transfer in = transport.Receive(peer, Channel::kData, theirs, bytes);
//   Transfer out = transport.Send(peer, Channel::kData, mine, bytes);
//   ZS_RETURN_IF_ERROR(transport.Wait(in, deadline));
//   ZS_RETURN_IF_ERROR(transport.Wait(out, deadline));
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "zeroshard/comm/operation_header.h"

namespace zeroshard::comm {

using Deadline = std::chrono::steady_clock::time_point;

// Headers and tokens; what is reduced, gathered or broadcast.
enum class Channel : uint8_t { kControl, kData };
inline constexpr int kChannels = 2;

inline constexpr int kMaxInFlight = 8;
inline constexpr int64_t kEagerBytes = 256;

// A send or receive under way: the transport's own number for it. 0 is none.
struct Transfer {
  uint64_t id = 0;
};

// Memory that peers may read and write in place; given back when it is dropped.
class MappedMemory {
 public:
  virtual ~MappedMemory() = default;
  virtual void* data() const = 0;
};

// Who forms a group out of this one: members[i], a rank here, becomes rank i there.
struct SplitSpec {
  std::span<const int> members;
  int rank = 0;     // of the caller, there
  uint64_t id = 0;  // the same on every member, another for every split of one transport
  absl::Duration timeout;
};

class Transport {
 public:
  virtual ~Transport() = default;  // Takes leave: peers whose receives this rank has satisfied notice nothing.

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // What messages call a rank of this group: its rank in the group that all others were split from.
  virtual int number(int rank) const { return rank; }
  virtual std::string_view name() const = 0;  // "gloo", for messages
  // The lowest rank on the host of `rank`, the same on all ranks: a hint for who is near whom, and no proof of shared memory.
  virtual int host(int /*rank*/) const { return 0; }

  // Of a piece that is summed as it comes: large enough that a message's fixed cost is small beside it.
  virtual int64_t piece_bytes() const { return int64_t{128} << 10; }

  // Begin to send data[0, bytes) to `peer`, to receive exactly `bytes` from it. Return at once; the memory stays as it is, and
  // (received) is not looked at, until Wait. bytes > 0. Allocate nothing of ours. A failure is told by Wait.
  virtual Transfer Send(int peer, Channel channel, const void* data, int64_t bytes) = 0;
  virtual Transfer Receive(int peer, Channel channel, void* data, int64_t bytes) = 0;
  // Holds the caller until the transfer has ended: spins briefly, then sleeps. After any error the communicator calls Cancel.
  // Errors: kDeadlineExceeded, naming the peer; kUnavailable the peer is gone (its rank, the vendor's words);
  // kFailedPrecondition message and receive differ in length; the cause, after Cancel.
  virtual absl::Status Wait(Transfer transfer, Deadline deadline) = 0;

  // Ends every transfer, posted or to come, with `cause`, and tells the peers, where it can, that this rank gave up, and why: they
  // get kUnavailable, or kFailedPrecondition where the cause is that, with these words. The first cause stays. Never blocks.
  virtual void Cancel(const absl::Status& cause) = 0;
  // What this rank does from now on, for peers that ask why it is late. Allocates nothing.
  virtual void Doing(const OperationHeader& /*operation*/) {}
  // `peers` are known to have begun the same: for those that ask what one did last that is gone. Not called where memory is mapped,
  // in which a peer's own word is found. Allocates nothing.
  virtual void Met(std::span<const int> /*peers*/) {}
  // After Cancel: returns when no byte of any transfer, nor of mapped memory, is read or written any more. Bounded.
  virtual void Quiesce() = 0;
  // `failed(rank, why)`: the transport knows that `rank` died or gave up (not that it took leave). It then ends every transfer of
  // this rank, posted or to come, with kUnavailable or the peer's words, as Cancel would. The callback is called once at most, from
  // any thread, only takes note, and is not running any more when the destructor has returned. Set before the first transfer.
  virtual void OnPeerFailed(std::function<void(int rank, const absl::Status& why)> failed) = 0;

  // Mapped memory: a peer's bytes read and written in place of being sent. MapKey gives a number by which peers find data[0, bytes)
  // of this rank, 0 where they cannot; MappedAddress the bytes of `peer` under its key, null where the key is none of its memory.
  // A peer's bytes are touched between BeginAccess, which may fail as Wait does, and EndAccess, a piece at a time: Quiesce waits.
  virtual bool maps_memory() const { return false; }
  virtual uint64_t MapKey(const void* /*data*/, int64_t /*bytes*/) { return 0; }
  virtual void* MappedAddress(int /*peer*/, uint64_t /*key*/, int64_t /*bytes*/) { return nullptr; }
  virtual absl::Status BeginAccess(int /*peer*/) { return absl::OkStatus(); }
  virtual void EndAccess(int /*peer*/) {}

  // [bytes] that MapKey knows. Null where it has none of its own: then the device allocates.
  virtual absl::StatusOr<std::unique_ptr<MappedMemory>> Allocate(int64_t /*bytes*/) { return nullptr; }

  // Called by every member, and by nobody else. The new transport lives on when this one is dropped.
  virtual absl::StatusOr<std::unique_ptr<Transport>> Split(const SplitSpec& spec) = 0;
};

}  // namespace zeroshard::comm
