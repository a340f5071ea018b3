// VersionedValue: plain bytes that one thread at a time writes and any thread reads, whole and without a lock: in memory of this
// process, or in memory that processes share (zeros are a value of zeros).
//
// Example:
//   doing.Store(header);                       // this rank, operation after operation
//   const OperationHeader now = doing.Load();  // whoever is asked what it does
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>

namespace zeroshard::comm {

template <class T>
class VersionedValue {
 public:
  void Store(const T& value) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    // Even, but where this rank's memory was written by a stranger. No exchange: it would wait for all that was stored before.
    const uint64_t version = version_.load(std::memory_order_relaxed) & ~uint64_t{1};
    version_.store(version + 1, std::memory_order_relaxed);
    // Who sees one of them sees that version, or a later one.
#pragma GCC unroll 16
    for (size_t i = 0; i < words_.size(); ++i) {
      uint64_t word;
      std::memcpy(&word, bytes + i * sizeof(word), sizeof(word));
      words_[i].store(word, std::memory_order_release);
    }
    version_.store(version + 2, std::memory_order_release);
  }

  // The latest; torn, where it is being written for a fifth of a second: its writer died, or was stopped.
  T Load() const {
    constexpr int kYields = 1'000, kAttempts = kYields + 2'000;
    Words words = {};
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      for (size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
      if (attempt < kYields) {
        std::this_thread::yield();
      } else {  // Its writer waits for a core.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    return std::bit_cast<T>(words);
  }

 private:
  using Words = std::array<uint64_t, sizeof(T) / sizeof(uint64_t)>;
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == sizeof(Words));
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  std::atomic<uint64_t> version_{0};  // odd while it is written
  std::array<std::atomic<uint64_t>, sizeof(T) / sizeof(uint64_t)> words_ = {};
};

}  // namespace zeroshard::comm
