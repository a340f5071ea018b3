#include "zeroshard/zero/flight.h"

#include <algorithm>

#include "zeroshard/device/scoped_span.h"

namespace zeroshard::zero {

using device::Array;

Flight::Flight(BucketReduction& reduction, const Layout& layout, device::Stream& compute, Array memory, int sections,
               const FlightOptions& options)
    : reduction_(&reduction), layout_(&layout), compute_(&compute), memory_(memory), options_(options) {
  taken_list_.reserve(sections);
  pieces_.reserve(sections);
  for (int i = 0; i < sections; ++i) ready_.push_back(compute.device().MakeEvent());
  reduced_ = compute.device().MakeEvent();
  landed_ = compute.device().MakeEvent();
}

Array Flight::Place(int section) {
  const int64_t elements = layout_->sections()[section].elements;
  const Array place = memory_.Slice(used_, elements);
  if (used_ == 0) compute_->Wait(*landed_);
  used_ += elements;
  ++placed_;
  return place;
}

Array Flight::Prepare(const Array& gradient) {
  device::Elementwise& elementwise = compute_->device().elementwise();
  if (options_.prescale != 1) elementwise.Scale(*compute_, gradient, 1 / options_.prescale);
  if (options_.wire.empty()) return gradient;
  const auto first = static_cast<int64_t>(gradient.address() - memory_.address()) / SizeOf(memory_.dtype());
  const Array copy = options_.wire.Slice(first, gradient.elements());
  elementwise.Convert(*compute_, gradient, copy);
  return copy;
}

void Flight::Take(const Departure& departure) {
  const Array travels = Prepare(departure.gradient);
  compute_->Record(*ready_[taken_list_.size()]);
  taken_list_.push_back({.departure = departure, .travels = travels});
  ++taken_;
  pending_positions_ += reduction_->Positions(departure.section);
  if (options_.hold) return;
  while (pending_positions_ >= reduction_->bucket_positions()) Send(reduction_->bucket_positions());
}

void Flight::Flush() {
  while (pending_positions_ > 0) Send(std::min(pending_positions_, reduction_->bucket_positions()));
}

// Sends the next `positions` of what was taken as one bucket.
void Flight::Send(int64_t positions) {
  pieces_.clear();
  pending_positions_ -= positions;
  size_t last = first_pending_;
  while (positions > 0) {
    last = first_pending_;
    Pending& pending = taken_list_[first_pending_];
    const Departure& d = pending.departure;
    const int64_t left = reduction_->Positions(d.section) - pending.sent;
    const int64_t count = std::min(left, positions);
    pieces_.push_back({.section = d.section,
                       .positions = {pending.sent, count},
                       .gradient = pending.travels,
                       .shard = LandsByItself(pending) ? d.shard : Array()});
    pending.sent += count;
    positions -= count;
    if (count == left) ++first_pending_;
  }
  last_ = reduction_->Issue(pieces_, {.after = {ready_[last].get()}, .wait_at_once = options_.wait_at_once});
  if (options_.wait_at_once) last_.WaitOn(*compute_);
}

// What is added to the shard is reduced in place first, and what the shard keeps in another dtype: so it is rounded once, to what
// travels, by every route.
bool Flight::LandsByItself(const Pending& pending) const {
  const Departure& d = pending.departure;
  return reduction_->HasOutput() && !d.accumulate && d.host_first < 0 && d.shard.dtype() == pending.travels.dtype();
}

bool Flight::ReadsSumOf(const Pending& pending) const {
  const Departure& d = pending.departure;
  if (d.host_first >= 0 || !d.carries.empty()) return true;
  return d.shard.empty() ? !options_.wire.empty() : !LandsByItself(pending);
}

void Flight::LandAll() {
  if (!taken_list_.empty()) {
    const bool reads =
        std::any_of(taken_list_.begin(), taken_list_.end(), [this](const Pending& pending) { return ReadsSumOf(pending); });
    // Where compute reads no sum, its memory is all that it wants back, and the group alone reads that.
    last_.within.WaitOn(*compute_);
    if (reads) last_.across.WaitOn(*compute_);
    const device::ScopedSpan span(*compute_, device::SpanKind::kAccumulate);
    for (const Pending& pending : taken_list_) LandOne(pending);
  }
  if (options_.host != nullptr) LandInHost();
  taken_list_.clear();
  first_pending_ = 0;
  pending_positions_ = 0;
}

void Flight::Settle() {
  Flush();
  LandAll();
}

bool Flight::Holds(int section) const {
  return std::any_of(taken_list_.begin(), taken_list_.end(),
                     [section](const Pending& pending) { return pending.departure.section == section; });
}

void Flight::Land() {
  LandAll();
  used_ = 0;
  placed_ = 0;
  taken_ = 0;
}

void Flight::LandOne(const Pending& pending) {
  const Departure& d = pending.departure;
  const Range used = reduction_->Used(d.section);
  if (used.count == 0) return;
  const Array part = pending.travels.Slice(used.first, d.shard.empty() ? used.count : d.shard.elements());
  device::Elementwise& elementwise = compute_->device().elementwise();
  if (d.shard.empty()) {
    if (!options_.wire.empty() && d.host_first < 0)
      elementwise.Convert(*compute_, part, d.gradient.Slice(used.first, used.count));
  } else if (d.accumulate) {
    elementwise.Accumulate(*compute_, part, d.shard);
  } else if (!LandsByItself(pending)) {
    elementwise.Convert(*compute_, part, d.shard);
  }
  Array sum = d.shard;
  for (const Array& next : d.carries) {
    elementwise.Accumulate(*compute_, sum, next);
    sum = next;
  }
}

// The last one's end is the end of all: they land in order.
void Flight::LandInHost() {
  HostGradients::Landing last;
  const auto land = [&] {
    if (last.ready != nullptr) options_.host->Land(last);
  };
  for (const Pending& pending : taken_list_) {
    const Departure& d = pending.departure;
    if (d.host_first < 0) continue;
    if (last.ready == nullptr) compute_->Record(*reduced_);
    land();
    const Range owned = layout_->sections()[d.section].Owned(reduction_->rank());
    const int64_t resident = d.shard.elements();
    last = {.part = pending.travels.Slice(owned.first + resident, owned.count - resident),
            .first = d.host_first,
            .accumulate = d.accumulate,
            .ready = reduced_.get()};
  }
  if (last.ready == nullptr) return;
  last.landed = landed_.get();
  landed_->Expect();
  land();
}

}  // namespace zeroshard::zero
