#include "zeroshard/trainer/bits_hash.h"

#include <bit>

#include "absl/strings/str_format.h"

namespace zeroshard::trainer {

// Each step is a bijection of the state for a given word, and of the word for a given state: one changed bit always shows.
void BitsHash::Add(uint64_t word) {
  state_ = (state_ ^ word) * 0x9fb21c651e98df25u;
  state_ ^= state_ >> 32;
}

void BitsHash::AddLoss(double loss) { Add(std::bit_cast<uint64_t>(loss)); }

void BitsHash::AddWeights(std::span<const float> values) {
  Add(values.size());
  for (const float value : values) Add(std::bit_cast<uint32_t>(value));
}

std::string BitsHash::Hex() const { return absl::StrFormat("%016x", state_); }

}  // namespace zeroshard::trainer
