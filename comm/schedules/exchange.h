// Exchange: one operation's view of a Transport: its deadline, its column of the wire ledger, its scratch and its peers' headers.
//
// Kept from operation to operation; used by one thread at a time. Tell and Hear come first.
//
// Example:
//   exchange.Tell(header, call, Traffic::kData);
//   ZS_RETURN_IF_ERROR(exchange.Hear(header, deadline));      // every peer of this rank issued the same
//   const Transfer in = exchange.Receive(peer, theirs, bytes);
//   ...
//   ZS_RETURN_IF_ERROR(exchange.Wait(in));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/comm/call_options.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/comm/schedules/host_call.h"
#include "zeroshard/comm/transport.h"
#include "zeroshard/comm/wire_ledger.h"

namespace zeroshard::comm {

class Exchange {
 public:
  // Whether every rank of the group talks to every other, the same on all of them.
  enum class Meeting : uint8_t { kSome, kAll };
  // `peers`: the ranks that this rank talks to, in the order in which it does; a peer has this rank among its own.
  Exchange(Transport& transport, WireLedger& ledger, std::span<std::byte> scratch, std::vector<int> peers, Meeting meeting);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  std::span<const int> peers() const { return peers_; }
  bool meets_all() const { return static_cast<int>(peers_.size()) == world_size_ - 1; }

  // Begins an operation: tells every peer of `mine`, of which it fills in how the bytes of `call` travel. Does not wait.
  void Tell(OperationHeader& mine, const HostCall& call, Traffic traffic);
  // Hears of theirs, which are to be as `mine`: returns when each of them has begun this operation too. The deadline is the operation's.
  // Errors: kFailedPrecondition, with what both called; those of Wait.
  absl::Status Hear(const OperationHeader& mine, Deadline deadline);

  // As Transport's. What is sent counts in the operation's column.
  Transfer Send(int peer, const void* data, int64_t bytes);
  Transfer Receive(int peer, void* data, int64_t bytes);
  absl::Status Wait(Transfer transfer);
  // Waits for all, forgets them, and leaves out those that are none.
  absl::Status WaitAll(std::span<Transfer> transfers);
  // Send and Receive of any length, in pieces under way both ways at once; waits for both. 0 bytes: not that way.
  absl::Status Swap(int to, const void* out, int64_t out_bytes, int from, void* in, int64_t in_bytes);

  // A word to each of `to` and from each of `from`: what came before it on that rank is done.
  absl::Status SwapTokens(std::span<const int> to, std::span<const int> from);

  // Memory to receive into; room for kTransfersPerPeer transfers of each rank, and for two pointers to each rank's memory. A
  // schedule's own until its next call of this class's other functions but Send, Receive, Wait and WaitAll.
  std::span<std::byte> scratch() const { return scratch_; }
  std::span<Transfer> transfers() { return transfers_; }
  std::span<const void*> parts() { return parts_; }
  std::span<void*> outs() { return outs_; }
  static constexpr int kTransfersPerPeer = 2 * kMaxInFlight;

  // Mapped memory, after Hear. Whether every rank reads and writes every other's arrays of this call in place.
  bool mapped() const { return mapped_; }
  // Whether this call's inputs came with its briefs: nothing else need be sent.
  bool carried() const { return carried_; }
  // Rank's input of such a call; this rank's own too.
  const void* CarriedIn(int rank) const {
    const int place = place_[static_cast<size_t>(rank)];
    return place < 0 ? mine_.keys.data() : told_[static_cast<size_t>(place)].brief.keys.data();
  }
  // Peer's array of segment i. Errors: kInternal the peer's key is none.
  absl::StatusOr<const std::byte*> PeerIn(int peer, size_t segment, int64_t bytes);
  absl::StatusOr<std::byte*> PeerOut(int peer, size_t segment, int64_t bytes);
  Transport& transport() { return transport_; }
  // A peer is going to read `bytes` of this rank's memory, or this rank writes them into a peer's: they count as sent.
  void CountSent(int64_t bytes) { ledger_.Add(traffic_, bytes); }

 private:
  // What a peer told of this operation.
  struct Told {
    int number = 0;  // of the peer, in messages
    OperationBrief brief;
    std::vector<uint64_t> keys;  // of segments: in, out, in, out, ...; of more than one segment
  };
  Transfer SendControl(int peer, const void* data, int64_t bytes);
  bool CarryInput(OperationHeader& mine, const HostCall& call);
  bool MapKeys(const HostCall& call);
  bool Agrees(size_t place) const;
  absl::Status Disagree(const OperationHeader& mine, size_t place);
  absl::Status SwapKeys();
  absl::StatusOr<std::byte*> Mapped(int peer, size_t segment, int side, int64_t bytes);

  Transport& transport_;
  WireLedger& ledger_;
  std::span<std::byte> scratch_;
  std::vector<int> peers_;
  const int rank_;
  const int world_size_;
  const Meeting meeting_;
  const bool maps_memory_;
  Deadline deadline_;
  Traffic traffic_ = Traffic::kData;
  bool mapped_ = false;
  bool carried_ = false;
  bool listed_ = false;     // Keys came as lists
  OperationBrief mine_;     // on its way from Tell to Hear
  OperationHeader other_;   // what a peer called that disagrees
  std::vector<Told> told_;  // [peers]
  std::vector<int> place_;  // [world_size]: of a rank in peers_, or -1
  std::vector<uint64_t> my_keys_;
  std::vector<Transfer> transfers_;
  std::vector<const void*> parts_;
  std::vector<void*> outs_;
};

}  // namespace zeroshard::comm
