// `bits`: 64 bits over every step's loss and over the final weights, the same number however they are sharded.
//
// Losses enter as they are made; the state between steps is one number, which a checkpoint keeps. Weights enter at the end,
// parameter by parameter in unit order, as fp32 without padding, tied ones once.
//
// Example:
//   BitsHash bits;
//   bits.AddLoss(loss);                          // at every step
//   bits.AddWeights(values);                     // at the end, for each parameter
//   bits.Hex();                                  // "91c3a0f8d2b64e17"
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace zeroshard::trainer {

class BitsHash {
 public:
  BitsHash() = default;
  // Goes on from what `state()` gave.
  explicit BitsHash(uint64_t state) : state_(state) {}

  void AddLoss(double loss);
  void AddWeights(std::span<const float> values);

  uint64_t state() const { return state_; }
  std::string Hex() const;

 private:
  void Add(uint64_t word);

  uint64_t state_ = 0x2545f4914f6cdd1d;
};

}  // namespace zeroshard::trainer
