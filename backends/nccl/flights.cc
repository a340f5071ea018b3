#include "zeroshard/backends/nccl/flights.h"

#include "absl/time/clock.h"

namespace zeroshard::backends {

Flights::Flights(device::Device& device) {
  for (Flight& flight : ring_) flight.start = device.MakeEvent();
}

void Flights::Take(comm::Operation& operation, const comm::OperationHeader& header) {
  std::lock_guard<std::mutex> lock(mutex_);
  Flight& flight = ring_[(first_ + taken_++) % kRing];
  flight.operation = &operation;
  flight.header = header;
  flight.step = operation.record.step;
  flight.began = false;
  flight.posted_at = absl::Now();
}

int64_t Flights::StepOfNext() {
  std::lock_guard<std::mutex> lock(mutex_);
  return Next().step;
}

// Events are not recorded under the lock: a call of CUDA waits where a stream's queue is full, for what only the watchdog may end.
void Flights::Begin(device::Stream& stream) {
  device::Event* start = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    start = Next().start.get();
  }
  stream.Record(*start);
  std::lock_guard<std::mutex> lock(mutex_);
  begun_ = true;
}

void Flights::Issue(device::Stream& stream) {
  device::Event* end = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    end = Next().operation->end;
    begun_ = true;
  }
  stream.Record(*end);
  std::lock_guard<std::mutex> lock(mutex_);
  begun_ = false;
  ++issued_;
  recorded_.notify_all();
}

comm::Operation* Flights::OldestPassed(bool all) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (issued_ == 0 && !begun_) return nullptr;
  Flight& flight = ring_[first_];
  if (!flight.began && flight.start->Done()) {
    flight.began = true;
    flight.began_at = absl::Now();
  }
  const bool ended = flight.operation->end->Done();
  if (issued_ == 0) {
    if (!ended) return nullptr;
    recorded_.wait(lock, [this] { return issued_ > 0; });  // It has been recorded: who did it is about to say so.
  }
  return all || ended ? flight.operation : nullptr;
}

void Flights::DropOldest() {
  std::lock_guard<std::mutex> lock(mutex_);
  first_ = (first_ + 1) % kRing;
  --taken_;
  --issued_;
}

bool Flights::empty() {
  std::lock_guard<std::mutex> lock(mutex_);
  return taken_ == 0;
}

bool Flights::full() {
  std::lock_guard<std::mutex> lock(mutex_);
  return taken_ == kRing;
}

bool Flights::Ended(uint64_t ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  return taken_ == 0 || ring_[first_].operation->ticket > ticket;
}

std::optional<Flights::Oldest> Flights::oldest() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (taken_ == 0) return std::nullopt;
  const Flight& flight = ring_[first_];
  return Oldest{.header = flight.header, .began = flight.began, .posted_at = flight.posted_at, .began_at = flight.began_at};
}

}  // namespace zeroshard::backends
