// A block of threads of a kernel, run on this thread.
//
// Threads run one after the other, each up to the next barrier or shuffle. What a GPU forbids, or leaves undefined, ends the test with the
// kernel, the line, the block and the thread: memory that is not there or not aligned, two threads that race, a barrier or a shuffle that
// some threads do not come to.
//
// Example:
//   BlockRun run(kernel, {.threads = 256, .blocks = 4}, parameters, memory, own);
//   for (unsigned block = 0; block < 4; ++block) run.Run(block);
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "zeroshard/device/cuda/ptx/global_memory.h"
#include "zeroshard/device/cuda/ptx/program.h"
#include "zeroshard/device/cuda/ptx/race_log.h"

namespace zeroshard::device::cuda::ptx {

inline constexpr unsigned kWarpThreads = 32;
inline constexpr size_t kMostSharedBytes = 48 * 1024;  // that a kernel declares

struct LaunchShape {
  unsigned threads = 0;  // of a block
  unsigned blocks = 0;
  bool is_backwards = false;  // from the last thread to the first
};

// What all threads did so far.
struct Work {
  uint64_t instructions = 0;  // of PTX
  uint64_t bytes = 0;         // of device memory, loaded and stored
};

// What a device's blocks run in, one after the other; kept so that a launch need not ask the system for it.
struct BlockMemory {
  std::vector<uint64_t> registers;
  std::vector<std::byte> threads, shared;
  RaceLog shared_log{kMostSharedBytes};
};

class BlockRun {
 public:
  // `parameters`: the kernel's, as they lie in a thread's memory. Both memories are one device's.
  BlockRun(const Program& program, const LaunchShape& shape, std::span<const std::byte> parameters, GlobalMemory& memory,
           BlockMemory& own);

  void Run(unsigned block);
  const Work& work() const { return work_; }

 private:
  enum class State { kRuns, kAtBarrier, kAtShuffle, kEnded };
  struct Thread {
    unsigned index = 0;
    uint64_t* registers = nullptr;
    std::byte* memory = nullptr;
    uint32_t at = 0;  // instruction
    State state = State::kRuns;
    std::vector<const Instruction*> calls;  // under way
    // See Fence.
    bool has_fenced = false, sees_blocks_before = false;
    uint64_t changed = 0;
  };
  // Blocks that fenced and then changed an address by an atomic operation.
  struct Released {
    unsigned blocks = 0, last = 0;
  };
  struct Place {
    std::byte* host = nullptr;
    RaceLog* log = nullptr;
    const Epochs* epochs = nullptr;
    size_t offset = 0;
  };

  void Begin(Thread& thread);
  // Up to the next barrier, shuffle or the end.
  void RunThread(Thread& thread);
  // Up to the next barrier or the end.
  void RunWarp(unsigned first);
  void Shuffle(unsigned first);
  // Whether there is more to run.
  bool PassBarrier();

  Place Find(const Thread& thread, const Instruction& i);
  void Load(Thread& thread, const Instruction& i);
  void Store(Thread& thread, const Instruction& i);
  void Change(Thread& thread, const Instruction& i);
  // A thread sees what all blocks before touched where each of them fenced and then changed one address atomically, and this thread
  // changed it and then fences (PTX ISA, release and acquire patterns).
  void Fence(Thread& thread);
  void Enter(Thread& thread, const Instruction& i);
  // False: the thread has ended.
  bool Return(Thread& thread);

  [[noreturn]] void Refuse(const Thread& thread, const std::string& why) const;

  const Program& program_;
  const LaunchShape shape_;
  const std::span<const std::byte> parameters_;
  GlobalMemory& memory_;
  BlockMemory& own_;
  unsigned block_ = 0;
  Epochs epochs_;        // of global memory
  Epochs alone_epochs_;  // of what no other block races with: shared memory, and a thread that sees the blocks before
  std::map<uint64_t, Released> released_;

  std::vector<Thread> threads_;
  Work work_;
};

}  // namespace zeroshard::device::cuda::ptx
