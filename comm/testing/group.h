// A group of ranks for tests: a device and a communicator each, every rank's code on a thread of its own.
//
// Example:
//   Group group = MakeGroup(3);
//   group.Run([](comm::Communicator& rank) { EXPECT_TRUE(rank.Barrier().Wait().ok()); });
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/host_communicator.h"
#include "zeroshard/device/device.h"

namespace zeroshard::comm::testing {

// How a backend makes a group of so many ranks, on devices that outlive it. Fails the test where it cannot.
using MakeRanks = std::function<std::vector<std::unique_ptr<Communicator>>(std::vector<device::Device*> devices,
                                                                           const HostOptions& options)>;
using MakeDevice = std::function<std::unique_ptr<device::Device>()>;

// What the suite runs on. `name` is of letters, digits and underscores.
struct Backend {
  std::string name;
  MakeRanks make_ranks;
  MakeDevice make_device;
  int most_ranks = 5;  // in the tests of every kind of case: fewer where each takes long
};
inline std::ostream& operator<<(std::ostream& out, const Backend& backend) { return out << backend.name; }

class Group {
 public:
  Group(const Backend& backend, int world_size, const HostOptions& options = {}) {
    std::vector<device::Device*> devices;
    for (int r = 0; r < world_size; ++r) {
      devices_.push_back(backend.make_device());
      devices.push_back(devices_.back().get());
    }
    ranks_ = backend.make_ranks(devices, options);
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  Communicator& rank(int r) { return *ranks_[static_cast<size_t>(r)]; }
  // Takes leave of a rank early.
  void Drop(int r) { ranks_[static_cast<size_t>(r)].reset(); }

  // body(communicator) of every rank at once; returns when all have.
  template <class Body>
  void Run(Body body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < size(); ++r) threads.emplace_back([&, r] { body(rank(r)); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

}  // namespace zeroshard::comm::testing
