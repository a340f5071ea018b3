// Transport between ranks that are threads of one process.
//
// Messages are copied from sender to receiver once, by whichever comes second. Memory of any rank is mapped in every other: it is
// the same. Faults lie in the sender.
//
// Example:
//   auto group = std::make_shared<InProcessGroup>(world_size, options);
//   std::unique_ptr<comm::Transport> transport = MakeInProcessTransport(group, rank);
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "zeroshard/backends/in_process/endpoint.h"
#include "zeroshard/backends/in_process/faults.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard::backends {

// What the ranks of one group share. Lives until the last of its transports is dropped.
class InProcessGroup {
 public:
  // What a rank is, in whatever group: what messages call it, for whom it waits, and on which host it passes for being.
  struct Member {
    int number = 0;
    std::shared_ptr<comm::WaitBoard> waits;
    int host = 0;
  };
  InProcessGroup(const std::vector<Member>& members, bool mapped, const Faults& faults);
  // ranks_per_host: as InProcessOptions.
  InProcessGroup(int world_size, bool mapped, const Faults& faults, int ranks_per_host = 0);

  int world_size() const { return static_cast<int>(endpoints_.size()); }
  int host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  bool mapped() const { return mapped_; }
  const Faults& faults() const { return faults_; }
  Endpoint& endpoint(int rank) { return *endpoints_[static_cast<size_t>(rank)]; }

  // The group of a split, for one of its members: the first that asks makes it, with the same delays and losses, but no victim.
  std::shared_ptr<InProcessGroup> Child(uint64_t id, const std::vector<int>& members);
  // `rank` is no more: all others are told `why`.
  void TellAll(int rank, const absl::Status& why);
  // As Faults, at any time, from any thread.
  void Kill(int rank);
  void Freeze(int rank);
  void Thaw(int rank);
  // `rank` took leave: whoever waits for it looks again.
  void WakeAll();

 private:
  struct Birth {
    std::shared_ptr<InProcessGroup> group;
    size_t joined = 0;
  };
  const bool mapped_;
  const Faults faults_;
  const std::vector<Member> members_;
  std::vector<int> hosts_;  // of each rank, the lowest on its host
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::mutex mutex_;
  std::map<std::pair<uint64_t, std::vector<int>>, Birth> births_;
};

std::unique_ptr<comm::Transport> MakeInProcessTransport(std::shared_ptr<InProcessGroup> group, int rank);

}  // namespace zeroshard::backends
