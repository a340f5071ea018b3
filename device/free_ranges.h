// What is free of memory that was taken in few large pieces: ranges of addresses, and nothing else.
//
// Example:
//   FreeRanges free;
//   free.AddPiece(address, 64 << 20);
//   std::optional<uint64_t> part = free.Take(4096);
//   free.Give(*part, 4096);
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace zeroshard::device {

class FreeRanges {
 public:
  // [bytes] at `address`, all free. Ranges of two pieces are never joined.
  void AddPiece(uint64_t address, int64_t bytes);
  // All of it is free.
  void DropPiece(uint64_t address);

  // From the smallest free range that [bytes] fit into, the first of those; nothing where none does. So the same calls in the same order
  // give the same places.
  std::optional<uint64_t> Take(int64_t bytes);
  void Give(uint64_t address, int64_t bytes);

  // The start of the piece that `address` lies in, where all of that piece is free.
  std::optional<uint64_t> FreePieceAt(uint64_t address) const;
  const std::map<uint64_t, int64_t>& pieces() const { return pieces_; }  // address -> bytes

 private:
  std::map<uint64_t, int64_t> pieces_;
  std::map<uint64_t, int64_t> free_;  // neighbours are joined
};

}  // namespace zeroshard::device
