// Which sequence of the data a sample reads: a function of the seed and of the sample's index alone, so that no rank keeps
// or exchanges a shuffled list, and a run continues anywhere.
//
// The data is cut into `sequences` stretches of [context] tokens. Epoch e holds samples e * sequences ... (e + 1) *
// sequences - 1 and visits each sequence once, in an order of its own. Samples run on over the end of an epoch: data that
// does not divide by ranks x rows needs neither dropping nor padding, a batch then holds the end of one epoch and the
// beginning of the next.
//
// Example:
//   SampleOrder order(sequences, seed, SampleOrder::Mode::kShuffled);
//   int64_t first_token = order.Sequence(sample) * context;
#pragma once

#include <cstdint>

namespace zeroshard::trainer {

class SampleOrder {
 public:
  enum class Mode : uint8_t {
    kShuffled,    // A pseudo-random permutation for each epoch.
    kSequential,  // The order of the file, over and over.
  };

  // `sequences` is at least 1.
  SampleOrder(int64_t sequences, uint64_t seed, Mode mode);

  int64_t sequences() const { return sequences_; }

  // In [0, sequences), for sample >= 0. Allocates nothing.
  int64_t Sequence(int64_t sample) const;

 private:
  // One pass of a balanced Feistel network over [0, 2^(2 half_bits)).
  uint64_t Permute(uint64_t value, uint64_t epoch_key) const;

  int64_t sequences_;
  uint64_t seed_;
  Mode mode_;
  int half_bits_;
};

}  // namespace zeroshard::trainer
