// UcxListeners: the sockets at which UCX's TCP listens, which UCX does not tell of, from when they open until all peers are connected.
//
// UCX takes every connection, keeps those that say nothing, and ends the process where one that speaks its protocol says something that it
// does not understand. So meanwhile the system hands it none that comes from elsewhere than ranks do, or has not spoken, and this process
// may open as many descriptors as its hard limit lets it. Afterwards the system drops whatever comes, and who has come and not said who it
// is does not stay.
//
// Example:
//   UcxListeners::Search search;
//   ucp_worker_create(...);
//   UcxListeners listeners(search, networks.sources);
//   ...
//   listeners.Stop();
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace zeroshard::backends {

class UcxListeners {
 public:
  // One at a time in a process: what listens at its end and did not at its beginning is the worker's that was made meanwhile.
  class Search {
   public:
    Search();

   private:
    friend class UcxListeners;
    const std::lock_guard<std::mutex> lock_;
    const std::vector<int> before_;
  };

  UcxListeners() = default;
  // Ends what has come by now: no rank can have, since nobody was told where the worker listens.
  // sources: the addresses from which ranks connect; empty: anybody may.
  UcxListeners(const Search& search, std::span<const std::string> sources);

  // Lets nobody connect any more, and ends connections that UCX has not answered. Once every peer has connected.
  void Stop();

 private:
  std::vector<int> sockets_;    // UCX's
  std::shared_ptr<void> room_;  // for descriptors
};

}  // namespace zeroshard::backends
