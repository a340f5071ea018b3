// The operations of a NCCL communicator that are in flight, oldest first: taken by DoStart, then issued (their start and end are recorded on
// the stream), then passed by the device. A ring of Communicator::kRing; nothing is allocated later.
//
// Note: How many are issued. No more than kMostIssued that have not ended: about a thousand entries fit into a stream's queue (launches, events,
// waits; a collective takes about ten), and behind a full one a call of CUDA waits for the device, where neither a deadline nor an abort is
// heard. More are taken, and wait on our side.
//
// Thread-safe, but for what is said below.
//
// Example:
//   flights.Take(operation, comm::MakeHeader(operation, rank, world_size));
//   Flights::Flight& flight = flights.NextToIssue();   // on the thread that calls NCCL
//   ... stream.Record(*flight.start) ...
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
  static constexpr size_t kMostIssued = 64;

  struct Flight {
    comm::Operation* operation = nullptr;
    comm::OperationHeader header;  // made when it is taken: its label is the caller's again once the device has come past it
    std::unique_ptr<device::Event> start;  // on the stream, once its `after` are done
    int64_t step = -1;
    bool began = false;
    absl::Time posted_at, began_at;
  };

  explicit Flights(device::Device& device);

  // `header`: this rank's of it (comm::MakeHeader).
  void Take(comm::Operation& operation, const comm::OperationHeader& header);
  // The oldest that is not issued. For one thread.
  Flight& NextToIssue();
  // Records its end, which is expected (Event::Expect), on the stream. Whoever knows of the end finds it issued.
  void Issue(device::Stream& stream);

  // The oldest, if it is issued and the device has come past it, or `all`; else null. Notes whether it has begun. Between this and
  // DropOldest no other thread may call either.
  comm::Operation* OldestPassed(bool all);
  void DropOldest();

  bool empty();
  bool full();
  // Whether as many as may be are issued: the next waits until one has ended.
  bool crowded();
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

  std::mutex mutex_;
  std::condition_variable recorded_;
  bool recording_ = false;          // the end of the first that is not issued
  std::array<Flight, kRing> ring_;  // oldest at first_
  size_t first_ = 0;
  size_t taken_ = 0;
  size_t issued_ = 0;  // of those, from the oldest on
};

}  // namespace zeroshard::backends
