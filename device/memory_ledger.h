// Every byte of one rank, filed under what it is for: now, at its peak, and as predicted from the formulas.
//
// Thread-safe. Owned by the rank's Device, which charges it on Allocate and credits it when a Buffer is dropped.
//
// Example:
//   device.ledger().Predict(Use::kMoments, 8 * shard_elements);
//   ...
//   device.ledger().now(Use::kMoments);
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace zeroshard::device {

// What memory is for. The first four hold what lives from step to step; gathered units, buckets and gradients in flight are
// communication.
enum class Use : uint8_t { kParameters, kGradients, kMasterWeights, kMoments, kActivations, kCommunication, kData };
inline constexpr int kUses = 7;

// As the summary writes it: "parameters", "gradients", "master_weights", "moments", "activations", "communication", "data".
std::string_view Name(Use use);

class MemoryLedger {
 public:
  void Charge(Use use, int64_t bytes);
  void Credit(Use use, int64_t bytes);
  // Adds to what is expected to be held under `use` from step to step.
  void Predict(Use use, int64_t bytes);

  // Adds to what is held beyond what was asked for, and filed under no use: the room left in pieces of memory that are not the device's own.
  void AddGranularity(int64_t bytes) { granularity_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t granularity() const { return granularity_.load(std::memory_order_relaxed); }

  int64_t now(Use use) const { return entries_[Index(use)].now.load(std::memory_order_relaxed); }
  int64_t peak(Use use) const { return entries_[Index(use)].peak.load(std::memory_order_relaxed); }
  int64_t predicted(Use use) const { return entries_[Index(use)].predicted.load(std::memory_order_relaxed); }
  // Number of Charge calls so far: equal before and after a steady step.
  int64_t charges() const { return charges_.load(std::memory_order_relaxed); }

  // A table of who holds what, for people: one line a use, bytes.
  std::string Table() const;

 private:
  struct Entry {
    std::atomic<int64_t> now{0};
    std::atomic<int64_t> peak{0};
    std::atomic<int64_t> predicted{0};
  };
  static constexpr size_t Index(Use use) { return static_cast<size_t>(use); }

  std::array<Entry, kUses> entries_;
  std::atomic<int64_t> charges_{0};
  std::atomic<int64_t> granularity_{0};
};

}  // namespace zeroshard::device
