// A vector clock: for each stream, how many of its operations are known to be done before a point.
//
// Example:
//   stream_clock.Merge(event_clock);                 // a wait
//   if (!stream_clock.Knows(other_stream, sequence)) // nothing orders us after that operation
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zeroshard::device {

class Clock {
 public:
  bool Knows(int stream, uint64_t sequence) const { return sequence <= At(stream); }
  bool Knows(const Clock& other) const {
    for (size_t s = 0; s < other.done_.size(); ++s) {
      if (!Knows(static_cast<int>(s), other.done_[s])) return false;
    }
    return true;
  }
  void Advance(int stream, uint64_t sequence) {
    const size_t index = static_cast<size_t>(stream);
    if (done_.size() <= index) done_.resize(index + 1, 0);
    done_[index] = std::max(done_[index], sequence);
  }
  void Merge(const Clock& other) {
    for (size_t s = 0; s < other.done_.size(); ++s) Advance(static_cast<int>(s), other.done_[s]);
  }

 private:
  uint64_t At(int stream) const {
    const size_t index = static_cast<size_t>(stream);
    return index < done_.size() ? done_[index] : 0;
  }

  std::vector<uint64_t> done_;
};

}  // namespace zeroshard::device
