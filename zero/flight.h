// Gradients in flight: memory in which backward leaves sections' gradients, from which they leave in buckets, and from which, once
// reduced, they land in the rank's shard. Landed is what compute has no more to do with; it may still be on its way across replicas
// (BucketReduction::WaitOnCrossings).
//
// A flight's life: Place sections, one after another -> Take each as it is ready; each bucket that is full leaves -> Flush: the rest
// leaves -> Land: compute is ordered after all of it, what lay in place is copied or added to the shard (a copy that travelled in
// another dtype: back to the gradient), the memory is free again.
//
// Stages 2 and 3 have one or two of them for the units in backward, and one for each gradient that is summed over several uses. In
// stages 0 and 1 the whole gradient buffer is a flight whose sections have fixed places, and nothing needs to land.
//
// Example:
//   Array gradient = flight.Place(section);
//   ... backward fills it ...
//   flight.Take({.section = section, .gradient = gradient, .shard = shard, .accumulate = false});
//   flight.Flush();
//   flight.Land();
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/device.h"
#include "zeroshard/zero/bucket_reduction.h"
#include "zeroshard/zero/offload/host_gradients.h"

namespace zeroshard::zero {

// A section's gradient as it leaves.
struct Departure {
  int section = 0;
  device::Array gradient;   // whole, as this rank's backward left it
  device::Array shard;      // where this rank's part of the sum lands, in any float dtype; empty: it stays in place
  bool accumulate = false;  // added to what is in the shard
  // The shard is then added to the first of them, that to the next, and so on. Valid until it has landed.
  std::span<const device::Array> carries = {};
  // Under offload `shard` is the first elements of the rank's part, perhaps none, and the others land in host memory, from this
  // element of the state on; -1: there are no others.
  int64_t host_first = -1;
};

struct FlightOptions {
  bool hold = false;              // buckets leave in Flush only
  bool wait_at_once = false;      // compute waits for each bucket where it is issued
  HostGradients* host = nullptr;  // outlives the flight
  // As many elements as the flight's memory, in another dtype: copies of the gradients travel here. Empty: they travel themselves.
  device::Array wire = {};
  double prescale = 1;  // gradients are divided by this before they travel
};

class Flight {
 public:
  // `sections`: how many it holds at most. All references outlive the flight.
  Flight(BucketReduction& reduction, const Layout& layout, device::Stream& compute, device::Array memory, int sections,
         const FlightOptions& options);

  bool Fits(int64_t elements) const {
    return used_ + elements <= memory_.elements() && placed_ < static_cast<int>(ready_.size());
  }
  // The place of a section's gradient. The caller knows that it fits, and that Land came after the last Flush.
  device::Array Place(int section);
  void Take(const Departure& departure);
  void Flush();
  // What has not left is forgotten.
  void Land();
  // Lands all that was taken, but keeps the places of what was placed.
  void Settle();
  // Whether a section was taken since the last Land or Settle.
  bool Holds(int section) const;

  // Sections placed and not yet taken.
  int open() const { return placed_ - taken_; }

 private:
  struct Pending {
    Departure departure;
    device::Array travels;  // the gradient, or its copy in `wire`
    int64_t sent = 0;       // positions that have left
  };
  void Send(int64_t positions);
  // What is to travel of a gradient, ready on compute.
  device::Array Prepare(const device::Array& gradient);
  void LandAll();
  void LandOne(const Pending& pending);
  void LandInHost();
  // Whether the reduction leaves the sum in the shard.
  bool LandsByItself(const Pending& pending) const;
  // Whether compute reads the sum to land it.
  bool ReadsSumOf(const Pending& pending) const;

  BucketReduction* reduction_;
  const Layout* layout_;
  device::Stream* compute_;
  device::Array memory_;
  FlightOptions options_;
  int64_t used_ = 0;
  int placed_ = 0;
  int taken_ = 0;
  std::vector<Pending> taken_list_;  // since Land or Settle, in order
  size_t first_pending_ = 0;         // the first that has positions left to send
  int64_t pending_positions_ = 0;
  std::vector<Piece> pieces_;                          // of the bucket that is being made
  std::vector<std::unique_ptr<device::Event>> ready_;  // of each Take: compute has filled the gradient
  Reduction last_;
  std::unique_ptr<device::Event> reduced_;  // what lands in host memory may be read
  std::unique_ptr<device::Event> landed_;   // it was read
};

}  // namespace zeroshard::zero
