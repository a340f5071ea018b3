// Pieces: stretches of arrays that lie side by side, each with what it has of its own, as one operation takes them.
//
// A model has some hundred parameters, most of them small: an operation on each by itself is a launch on a GPU that ends before the next
// one begins. Their table travels in the launch's arguments, so that nobody allocates it.
//
// Example: the update of a section's parameters, two of which do not decay.
//   Pieces<AdamPass> pieces;
//   for (const Run& run : runs) pieces.Add({.first = run.first, .count = run.count, .of = PassOf(run)});
//   step.Adam(stream, pieces, gradients, scalars, weights, exp_avg, exp_avg_sq, write_back);
#pragma once

#include <cstdint>

#include "zeroshard/device/host_device.h"

namespace zeroshard::device {

// Elements first ... first + count - 1.
template <class Of>
struct Piece {
  int64_t first = 0;
  int64_t count = 0;
  Of of = {};
};

template <class Of>
class Pieces {
 public:
  // A launch's arguments have 4096 bytes, and an optimizer's piece has 48.
  static constexpr int kMost = 64;

  constexpr Pieces() = default;

  // Whoever fills it asks `full` first.
  void Add(const Piece<Of>& piece) { pieces_[size_++] = piece; }
  void Clear() { size_ = 0; }

  ZS_HOST_DEVICE bool full() const { return size_ == kMost; }
  ZS_HOST_DEVICE bool empty() const { return size_ == 0; }
  ZS_HOST_DEVICE int size() const { return size_; }
  ZS_HOST_DEVICE const Piece<Of>& operator[](int i) const { return pieces_[i]; }
  const Piece<Of>* begin() const { return pieces_; }
  const Piece<Of>* end() const { return pieces_ + size_; }

 private:
  int size_ = 0;
  Piece<Of> pieces_[kMost] = {};
};

// All of an array.
template <class Of>
Pieces<Of> OnePiece(int64_t count, const Of& of) {
  Pieces<Of> pieces;
  pieces.Add({.count = count, .of = of});
  return pieces;
}

// Of pieces that have nothing of their own.
struct Plain {};
inline Pieces<Plain> OnePiece(int64_t count) { return OnePiece(count, Plain()); }

}  // namespace zeroshard::device
