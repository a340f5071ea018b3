// MappedRegion: memory of the same size on every rank, which each rank finds in its own process under an address of its own.
//
// UCX allocates it; each rank publishes its key in the store, maps the keys of all others, and holds what it finds there against
// the random bytes that the key's owner wrote: so that memory is proved to be shared, never guessed to be. It is mapped where every
// rank could map every other's; else it is memory of this rank alone.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<MappedRegion> region,
//                       MappedRegion::Create({.worker = worker, .store = store, .name = "map/3", ...}, bytes));
//   if (region->mapped()) Read(region->address(peer));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ucp/api/ucp.h"
#include "zeroshard/backends/ucx/ucx_worker.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard::backends {

struct MappingOptions {
  std::shared_ptr<UcxWorker> worker;  // connected to all peers
  comm::Store* store = nullptr;
  std::string name;  // of the region in the store: the same on every rank, another for each region
  int rank = 0;
  int world_size = 1;
  comm::Deadline deadline;
  // What messages call a rank.
  std::function<int(int)> number = [](int peer) { return peer; };
  // Why waiting is of no use any more; OK where it still is.
  std::function<absl::Status()> given_up = [] { return absl::OkStatus(); };
};

class MappedRegion {
 public:
  // Collective. [bytes], of zeros; bytes > 0.
  // Errors: kDeadlineExceeded, naming a rank that did not come; kResourceExhausted this rank has no memory; the store's; given_up's.
  static absl::StatusOr<std::unique_ptr<MappedRegion>> Create(const MappingOptions& options, int64_t bytes);
  // For tests: parts[i], which outlives it, is rank i's.
  static std::unique_ptr<MappedRegion> OfParts(const std::vector<void*>& parts, int rank, int64_t bytes);
  // Peers that have it mapped keep what they see.
  ~MappedRegion();
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;

  bool mapped() const { return mapped_; }
  int64_t bytes() const { return bytes_; }
  void* data() const { return data_; }
  // The memory of `peer`; this rank's own is data(). Null where not mapped.
  void* address(int peer) const { return mapped_ ? peers_[static_cast<size_t>(peer)].data : nullptr; }

 private:
  struct Peer {
    void* data = nullptr;
    ucp_rkey_h rkey = nullptr;
  };
  MappedRegion(std::shared_ptr<UcxWorker> worker, int64_t bytes) : worker_(std::move(worker)), bytes_(bytes) {}
  absl::Status Publish(const MappingOptions& options);
  absl::StatusOr<bool> MapPeers(const MappingOptions& options);

  const std::shared_ptr<UcxWorker> worker_;
  const int64_t bytes_;
  void* data_ = nullptr;
  ucp_mem_h memory_ = nullptr;
  std::vector<Peer> peers_;
  bool mapped_ = false;
};

}  // namespace zeroshard::backends
