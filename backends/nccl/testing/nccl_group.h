// A group of ranks over NCCL's double, each on a thread and a device of its own.
//
// Example:
//   NcclGroup group(2);
//   group.Run([](comm::Communicator& rank) { EXPECT_TRUE(rank.Barrier().Wait().ok()); });
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/backends/nccl/nccl_communicator.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/device/cuda/cuda_device.h"

namespace zeroshard::backends::testing {

// Device `ordinal` of the doubles; with pieces of 0 bytes each allocation is one that the doubles tell from the others.
inline std::unique_ptr<device::Device> DoubleDevice(int ordinal, int64_t piece_bytes = 0) {
  auto made = device::cuda::MakeCudaDevice({.ordinal = ordinal, .piece_bytes = piece_bytes});
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

// NCCL's own, of this thread's device.
inline ncclComm_t OneRank() {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclSuccess);
  return comm;
}

// On every rank at once. `options` but for device, store, rank and world size.
inline std::vector<absl::StatusOr<std::unique_ptr<comm::Communicator>>> JoinRanks(
    const std::vector<device::Device*>& devices, comm::Store& store, const NcclOptions& options) {
  std::vector<absl::StatusOr<std::unique_ptr<comm::Communicator>>> ranks(devices.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    threads.emplace_back([&, rank] {
      NcclOptions mine = options;
      mine.device = devices[rank];
      mine.store = &store;
      mine.rank = static_cast<int>(rank);
      mine.world_size = static_cast<int>(devices.size());
      ranks[rank] = MakeNcclCommunicator(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

class NcclGroup {
 public:
  explicit NcclGroup(int world_size, const NcclOptions& options = {.timeout = absl::Seconds(30), .scratch_bytes = 1 << 16},
                     int64_t piece_bytes = 0) {
    std::vector<device::Device*> devices;
    for (int r = 0; r < world_size; ++r) devices.push_back(devices_.emplace_back(DoubleDevice(r, piece_bytes)).get());
    for (auto& rank : JoinRanks(devices, store_, options)) {
      EXPECT_TRUE(rank.ok()) << rank.status();
      ranks_.push_back(*std::move(rank));
    }
  }

  // At once, as processes do.
  ~NcclGroup() {
    std::vector<std::thread> threads;
    for (auto& rank : ranks_) threads.emplace_back([&rank] { rank.reset(); });
    for (std::thread& thread : threads) thread.join();
  }

  comm::Communicator& rank(int r) { return *ranks_[static_cast<size_t>(r)]; }
  void Drop(int r) { ranks_[static_cast<size_t>(r)].reset(); }

  // body(communicator) of every rank at once.
  template <class Body>
  void Run(Body body) {
    std::vector<std::thread> threads;
    for (auto& rank : ranks_) threads.emplace_back([&body, &rank] { body(*rank); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  comm::MemoryStore store_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::vector<std::unique_ptr<comm::Communicator>> ranks_;
};

}  // namespace zeroshard::backends::testing
