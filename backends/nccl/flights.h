// The operations of a NCCL communicator that are in flight, oldest first: taken by DoStart, then begun (their start is recorded on the
// stream), then issued (their end is, too), then passed by the device. A ring of Communicator::kRing; nothing is allocated later.
//
// Thread-safe, but for what is said below.
//
// Example:
//   flights.Take(operation, comm::MakeHeader(operation, rank, world_size));
//   const int64_t step = flights.StepOfNext();   // on the thread that calls NCCL
//   flights.Begin(stream);
//   ... what it does ...
//   flights.Issue(stream);
//   while (comm::Operation* operation = flights.OldestPassed(/*all=*/false)) { flights.DropOldest(); Finish(*operation, status); }
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/time/time.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/operation.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/device/device.h"

namespace zeroshard::backends {

class Flights {
 public:
  explicit Flights(device::Device& device);

  // `header`: this rank's of it (comm::MakeHeader).
  void Take(comm::Operation& operation, const comm::OperationHeader& header);
  // Of the oldest that is not issued; for one thread. The step of the device's recorder that it is of.
  int64_t StepOfNext();
  // Records its start on the stream, where its `after` are done.
  void Begin(device::Stream& stream);
  // Records its end, which is expected (Event::Expect), on the stream. Whoever knows of the end finds it issued. One that was not begun has
  // failed.
  void Issue(device::Stream& stream);

  // The oldest, if it is issued and the device has come past it, or `all`; else null. Notes whether it has begun. Between this and
  // DropOldest no other thread may call either.
  comm::Operation* OldestPassed(bool all);
  void DropOldest();

  bool empty();
  bool full();
  // Whether what has this ticket is in flight no more.
  bool Ended(uint64_t ticket);

  // The oldest as it is now.
  struct Oldest {
    comm::OperationHeader header;
    bool began;
    absl::Time posted_at, began_at;
  };
  std::optional<Oldest> oldest();

 private:
  static constexpr size_t kRing = comm::Communicator::kRing;

  struct Flight {
    comm::Operation* operation = nullptr;
    comm::OperationHeader header;  // made when it is taken: its label is the caller's again once the device has come past it
    std::unique_ptr<device::Event> start;
    int64_t step = -1;
    bool began = false;  // the device has come past the start
    absl::Time posted_at, began_at;
  };

  Flight& Next() { return ring_[(first_ + issued_) % kRing]; }

  std::mutex mutex_;
  std::condition_variable recorded_;
  bool begun_ = false;              // the first that is not issued
  std::array<Flight, kRing> ring_;  // oldest at first_
  size_t first_ = 0;
  size_t taken_ = 0;
  size_t issued_ = 0;  // of those, from the oldest on
};

}  // namespace zeroshard::backends
