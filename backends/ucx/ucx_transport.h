// UcxTransport: comm::Transport over UCX: messages by UCP's tags, and memory that ranks of one host read and write in place.
//
// Shared memory is tried first, and alone. Where every rank proves to see every other's (mapped_region.h), memory of Allocate
// is mapped, short messages go by mailboxes in it, long ones through UCX's, and UCX opens no port. Else all goes by messages,
// whose way is UCX's choice: the network's own between hosts; its ports take nobody once all ranks are connected, and a message
// counts where it carries a number that its receiver published in the store. What ranks say about themselves, that they leave
// or gave up and why, goes over lines of their own, by which a dead process is known at once: in shared memory
// (mapped_lines.h), where all share it, else over TCP (peer_lines.h). Where memory is shared a rank holds the same descriptors
// and threads however many ranks there are.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> transport,
//                       UcxTransport::Connect({.store = &store, .rank = rank, .world_size = n}));
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/backends/gloo/lines.h"
#include "zeroshard/backends/gloo/peer_connections.h"
#include "zeroshard/backends/gloo/peer_lines.h"
#include "zeroshard/backends/ucx/access_guard.h"
#include "zeroshard/backends/ucx/mailboxes.h"
#include "zeroshard/backends/ucx/mapped_lines.h"
#include "zeroshard/backends/ucx/mapped_region.h"
#include "zeroshard/backends/ucx/region_table.h"
#include "zeroshard/backends/ucx/ucx_networks.h"
#include "zeroshard/backends/ucx/ucx_worker.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard::backends {

class UcxTransport final : public comm::Transport {
 public:
  // Collective. options.store outlives the transport and those split from it. options.interface is where lines are; UCX's
  // networks: see ucx_networks.h. Errors: see ConnectPeers, ChooseNetworks; UCX's.
  static absl::StatusOr<std::unique_ptr<UcxTransport>> Connect(const ConnectOptions& options);
  ~UcxTransport() override;

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  int number(int rank) const override { return options_.Number(rank); }
  std::string_view name() const override { return "ucx"; }
  // Ranks that share memory are near, wherever they are.
  int host(int rank) const override { return guard_ != nullptr ? 0 : hosts_[static_cast<size_t>(rank)]; }

  comm::Transfer Send(int peer, comm::Channel channel, const void* data, int64_t bytes) override;
  comm::Transfer Receive(int peer, comm::Channel channel, void* data, int64_t bytes) override;
  absl::Status Wait(comm::Transfer transfer, comm::Deadline deadline) override;
  void Cancel(const absl::Status& cause) override;
  void Doing(const comm::OperationHeader& operation) override;
  void Met(std::span<const int> peers) override;
  void Quiesce() override;
  void OnPeerFailed(std::function<void(int rank, const absl::Status& why)> failed) override;

  bool maps_memory() const override { return guard_ != nullptr; }
  uint64_t MapKey(const void* data, int64_t bytes) override;
  void* MappedAddress(int peer, uint64_t key, int64_t bytes) override;
  absl::Status BeginAccess(int peer) override;
  void EndAccess(int peer) override { guard_->End(peer); }
  // Collective where maps_memory(). [bytes] are touched. Errors: see MappedRegion::Create.
  absl::StatusOr<std::unique_ptr<comm::MappedMemory>> Allocate(int64_t bytes) override;

  absl::StatusOr<std::unique_ptr<comm::Transport>> Split(const comm::SplitSpec& spec) override;

 private:
  // A send or receive: by UCX, or, short ones where all ranks share memory, by mail.
  struct Record {
    uint64_t id = 0;  // its transfer's
    UcxMessage message;
    bool sends = false;
    int peer = 0;
    comm::Channel channel = comm::Channel::kControl;
    void* data = nullptr;
    int64_t bytes = 0;
    bool by_mail = false;
    uint64_t number = 0;  // of a receive by mail, in its box
  };

  UcxTransport(const ConnectOptions& options, std::string store_prefix);
  static absl::StatusOr<std::unique_ptr<UcxTransport>> ConnectUnder(const ConnectOptions& options, std::string store_prefix);
  absl::Status Open();
  absl::Status OpenWays(comm::Store& store, UcxWays ways, comm::Deadline deadline);
  absl::Status MakeWorker(UcxWays ways, UcxNetworks networks);
  bool HasCoreForEachRank() const;
  absl::Status ConnectWorkers(comm::Store& store, UcxWays ways, comm::Deadline deadline);
  absl::Status Greet(int64_t bytes, comm::Deadline deadline);
  absl::Status MoveLines(comm::Deadline deadline);
  absl::Status ShareGuard(UcxWays ways, comm::Deadline deadline);
  ucp_tag_t TagOf(int sender, int receiver, comm::Channel channel) const;
  absl::StatusOr<std::unique_ptr<MappedRegion>> MakeRegion(const std::string& name, int64_t bytes, comm::Deadline deadline);

  bool ByMail(int64_t bytes) const { return mail_ != nullptr && bytes <= Mailboxes::kMostBytes; }
  Record& NewRecord(bool sends, int peer, comm::Channel channel, void* data, int64_t bytes);
  void PutWaitingMail();
  bool TryEnd(Record& record, int rounds);
  void Rest(Record& record, std::chrono::milliseconds most);
  absl::Status Await(Record& record, comm::Deadline deadline);
  absl::Status EndOf(const Record& record);
  absl::Status WhyStopped(const Record& record);
  bool Drain(Record& record, std::chrono::milliseconds most);
  absl::Status Late(const Record& record);
  absl::Status AwaitSlowly(Record& record, comm::Deadline deadline);
  absl::Status Gone(const Record& record, const absl::Status& said);
  absl::Status CauseOfCancel() const;
  absl::Status GivenUp() const;
  void Heard(int peer, const absl::Status& why);
  void Settle();
  void WakeUp();
  void ForgetWakes();

  const ConnectOptions options_;
  const std::string store_prefix_;  // of this group's keys in options_.store
  std::shared_ptr<UcxWorker> worker_;
  std::vector<int> hosts_;         // PeerSockets::host
  LineEnds ends_;                  // of the lines
  std::vector<uint64_t> numbers_;  // [world_size]: what messages to each rank carry
  Socket wake_;                    // an eventfd: something other than a message happened
  bool spins_ = false;             // before it sleeps: every rank has a core of this host

  std::vector<std::unique_ptr<Record>> records_;
  std::vector<uint64_t> free_;  // numbers of records, from 1
  bool quiet_ = false;

  std::unique_ptr<MappedRegion> pages_;  // of guard_ and mail_
  std::unique_ptr<AccessGuard> guard_;   // null: nothing is mapped
  std::unique_ptr<Mailboxes> mail_;      // as guard_
  std::vector<uint64_t> asked_;          // [world_size * kChannels]: receives by mail so far
  std::vector<Record*> waiting_;         // sends by mail that found no room, in order
  int64_t by_ucx_ = 0;                   // transfers begun by UCX and not waited for
  std::shared_ptr<RegionTable> regions_;
  std::atomic<uint64_t> allocated_{0};  // regions so far

  std::atomic<bool> stopped_{false};           // cancelled, or a peer failed
  std::unique_ptr<std::atomic<bool>[]> left_;  // [world_size]
  mutable std::mutex mutex_;
  std::optional<absl::Status> cancelled_;
  std::function<void(int rank, const absl::Status& why)> on_peer_failed_;
  std::optional<std::pair<int, absl::Status>> first_failure_;

  std::unique_ptr<Lines> lines_;  // the last: its thread calls Heard
};

}  // namespace zeroshard::backends
