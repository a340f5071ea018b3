// Who touched each byte last, so that two threads that no barrier orders are noticed.
//
// Two touches of one byte race where one of them writes, and not both are atomic, and the threads are of two blocks of the launch, or of one
// block with no barrier between. Time is counted in epochs: each launch, block and barrier begins one, none is 0.
//
// Example:
//   RaceLog log(bytes);
//   if (log.Read({.launch = 1, .block = 4, .now = 7}, offset, thread)) ...   // it races
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace zeroshard::device::cuda::ptx {

// The epochs in which the launch and the block began, and the present one.
struct Epochs {
  uint32_t launch = 1, block = 1, now = 1;
};

class RaceLog {
 public:
  explicit RaceLog(size_t bytes) : pages_(bytes / kPageBytes + 1) {}

  // True: it races with an earlier touch. Elements are known by their first byte.
  bool Read(const Epochs& epochs, size_t byte, uint32_t thread);
  bool Write(const Epochs& epochs, size_t byte, uint32_t thread, bool is_atomic);

 private:
  static constexpr uint32_t kSeveral = ~uint32_t{0};
  // Epoch 0: none yet.
  struct Touch {
    uint32_t epoch, thread;
  };
  struct Cell {
    Touch written, read;
    uint32_t read_by_block_before;  // epoch
    bool is_atomic;
  };
  static bool Races(const Epochs& epochs, const Touch& earlier, uint32_t thread);

  static constexpr size_t kPageBytes = 256;
  Cell& At(size_t byte) {
    std::unique_ptr<Cell[]>& page = pages_[byte / kPageBytes];
    if (page == nullptr) page = std::make_unique<Cell[]>(kPageBytes);
    return page[byte % kPageBytes];
  }

  std::vector<std::unique_ptr<Cell[]>> pages_;  // of what was touched
};

}  // namespace zeroshard::device::cuda::ptx
