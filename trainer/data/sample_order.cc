#include "zeroshard/trainer/data/sample_order.h"

namespace zeroshard::trainer {
namespace {

constexpr int kRounds = 6;

// SplitMix64's finalizer: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators".
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

int HalfBits(int64_t sequences) {
  int half = 1;
  while (half < 31 && (int64_t{1} << (2 * half)) < sequences) ++half;
  return half;
}

}  // namespace

SampleOrder::SampleOrder(int64_t sequences, uint64_t seed, Mode mode)
    : sequences_(sequences), seed_(seed), mode_(mode), half_bits_(HalfBits(sequences)) {}

uint64_t SampleOrder::Permute(uint64_t value, uint64_t epoch_key) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (Mix(Mix(epoch_key + static_cast<uint64_t>(round)) ^ right) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

int64_t SampleOrder::Sequence(int64_t sample) const {
  if (mode_ == Mode::kSequential) return sample % sequences_;
  const uint64_t epoch_key = Mix(Mix(seed_) ^ static_cast<uint64_t>(sample / sequences_));
  // Cycle walking: the permutation of the next power of four, repeated until it lands inside; fewer than four passes on
  // average.
  uint64_t value = static_cast<uint64_t>(sample % sequences_);
  do {
    value = Permute(value, epoch_key);
  } while (value >= static_cast<uint64_t>(sequences_));
  return static_cast<int64_t>(value);
}

}  // namespace zeroshard::trainer
