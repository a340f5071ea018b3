// Strangers: connections to TCP ports by somebody who means no good.
//
// Silent ones, half-closed ones, garbage of many kinds, some of it with the beginning that a listener of ours expects; a few
// hundred open at once.
//
// Example:
//   Strangers strangers;
//   for (int i = 0; i < 10000; ++i) strangers.Visit({"127.0.0.1", port});
//   ...
//   StrangersEverywhere everywhere;      // in the background, on every port on which these processes listen
//   everywhere.Follow({pid});
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace zeroshard::comm::testing {

// An address as connect takes it, in text, and a port.
using ListeningPort = std::pair<std::string, int>;

// Where the process listens over TCP now.
std::set<ListeningPort> ListeningPorts(pid_t process);

// Whether this machine lets this process have the system drop what comes to a socket, as UCX's ports need it once all ranks are
// connected (backends/ucx/README.md). Some let root alone.
bool MayDropConnections();

class Strangers {
 public:
  Strangers() = default;
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  // One more connection. True where somebody answered within `patience_ms`.
  bool Visit(const ListeningPort& port, int patience_ms = 1);
  int64_t visits() const { return visits_; }
  int64_t answered() const { return answered_; }

 private:
  std::atomic<int64_t> visits_{0};
  std::atomic<int64_t> answered_{0};
  std::vector<int> open_;
};

// Ports are looked for again and again, so that one that opens later is found, too.
class StrangersEverywhere {
 public:
  // At most `most` connections, in all.
  explicit StrangersEverywhere(int64_t most = 10000) : most_(most), thread_([this] { Run(); }) {}
  ~StrangersEverywhere();
  StrangersEverywhere(const StrangersEverywhere&) = delete;
  StrangersEverywhere& operator=(const StrangersEverywhere&) = delete;

  void Follow(const std::vector<pid_t>& processes);
  const Strangers& strangers() const { return strangers_; }

 private:
  void Run();

  const int64_t most_;
  Strangers strangers_;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::vector<pid_t> processes_;
  std::thread thread_;
};

}  // namespace zeroshard::comm::testing
