// GlooTransport: comm::Transport over Gloo's UnboundBuffers on TCP.
//
// Gloo's own algorithms are not used. A send of up to comm::kEagerBytes is copied, so that it ends at once, and lingers until the
// peer takes it; every other send ends when the system has all of it. Lengths that differ end the receive, never the process.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<GlooTransport> transport,
//                       GlooTransport::Connect({.store = &store, .rank = rank, .world_size = n}));
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gloo/transport/unbound_buffer.h"
#include "zeroshard/backends/gloo/gloo_pair.h"
#include "zeroshard/backends/gloo/peer_connections.h"
#include "zeroshard/backends/gloo/peer_lines.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard::backends {

class GlooTransport final : public comm::Transport, private GlooPair::Observer {
 public:
  // Collective. options.store outlives the transport and those split from it. Errors: see ConnectPeers.
  static absl::StatusOr<std::unique_ptr<GlooTransport>> Connect(const ConnectOptions& options);
  ~GlooTransport() override;

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  int number(int rank) const override { return options_.Number(rank); }
  std::string_view name() const override { return "gloo"; }
  int host(int rank) const override { return hosts_[static_cast<size_t>(rank)]; }
  // A message costs about 30 us of both ends' cores, and its bytes leave the caches anyway.
  int64_t piece_bytes() const override { return int64_t{512} << 10; }

  comm::Transfer Send(int peer, comm::Channel channel, const void* data, int64_t bytes) override;
  comm::Transfer Receive(int peer, comm::Channel channel, void* data, int64_t bytes) override;
  absl::Status Wait(comm::Transfer transfer, comm::Deadline deadline) override;
  void Cancel(const absl::Status& cause) override;
  void Doing(const comm::OperationHeader& operation) override;
  void Met(std::span<const int> peers) override;
  void Quiesce() override;
  void OnPeerFailed(std::function<void(int rank, const absl::Status& why)> failed) override;
  absl::StatusOr<std::unique_ptr<comm::Transport>> Split(const comm::SplitSpec& spec) override;

 private:
  // Transfers that may be under way on one lane, with sends that linger.
  static constexpr uint64_t kRing = 32;
  // Ids of transfers hold the lane's number above the transfer's; never 0.
  static constexpr int kIndexBits = 40;
  // How long, once a rank has failed, what others sent before may take to come, and what this rank sent to be taken.
  static constexpr absl::Duration kAftermath = absl::Milliseconds(100);

  struct Entry {
    std::unique_ptr<::gloo::transport::UnboundBuffer>
        buffer;  // over all of memory: see "Note: one buffer for all addresses"
    int64_t bytes = 0;
    absl::Status posted;                   // what Gloo said when it was posted
    bool lingers = false;                  // an eager send that was waited for, and that Gloo still has
    std::atomic<int64_t> peers_bytes{-1};  // the length that the peer has in mind, where it is not `bytes`
    std::array<char, comm::kEagerBytes> eager;
  };

  // Transfers of one direction and one channel between this rank and one peer, in order.
  struct Lane {
    int peer = 0;
    comm::Channel channel = comm::Channel::kControl;
    Direction direction = Direction::kSend;
    uint64_t posted = 0;
    uint64_t lingering_from = 0;  // all before have ended
    std::array<Entry, kRing> entries;
  };

  GlooTransport(const ConnectOptions& options, std::string store_prefix)
      : options_(options), store_prefix_(std::move(store_prefix)), hosts_(static_cast<size_t>(options.world_size)) {}
  static absl::StatusOr<std::unique_ptr<GlooTransport>> ConnectUnder(const ConnectOptions& options,
                                                                     std::string store_prefix);
  absl::Status Open();
  absl::Status MakeLanes();

  static size_t LaneNumber(int peer, comm::Channel channel, Direction direction);
  Lane& LaneOf(int peer, comm::Channel channel, Direction direction);
  static comm::Transfer Name(const Lane& lane, uint64_t index);
  static bool IsEager(const Lane& lane, const Entry& entry);
  comm::Transfer Begin(Lane& lane, const void* data, int64_t bytes);
  void Post(Lane& lane, Entry& entry, const void* data);
  absl::Status WaitEntry(Lane& lane, uint64_t index, comm::Deadline deadline);
  absl::StatusOr<bool> WaitForGloo(Lane& lane, Entry& entry, std::chrono::milliseconds timeout);
  absl::Status WaitAfterFailure(Lane& lane, uint64_t index, comm::Deadline deadline);
  absl::Status EndLingering(Lane& lane, uint64_t before, comm::Deadline deadline);
  absl::Status Explain(const Lane& lane, const Entry& entry, const absl::Status& said, comm::Deadline deadline);
  absl::Status Late(int peer, const std::string& what);
  absl::Status CauseOfCancel() const;
  absl::Status FirstFailure() const;
  void WakeWaits();
  void Heard(int peer, const absl::Status& why);
  void LengthDiffers(int peer, int slot, Direction direction, uint64_t index, int64_t peers_bytes) override;
  bool Delivered(int peer);
  void Linger(absl::Duration most);

  const ConnectOptions options_;
  const std::string store_prefix_;  // of this group's keys in options_.store
  std::vector<int> hosts_;          // PeerSockets::host
  std::shared_ptr<GlooContext> context_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<PeerLines> lines_;

  mutable std::mutex mutex_;
  std::optional<absl::Status> cancelled_;
  std::function<void(int rank, const absl::Status& why)> on_peer_failed_;
  std::optional<std::pair<int, absl::Status>> first_failure_;  // heard of before OnPeerFailed was called
};

}  // namespace zeroshard::backends
