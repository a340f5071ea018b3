// The floor under an all-reduce of many ranks on few cores: processes that do nothing but add up each other's mapped memory, with a
// barrier of flags that gives its core up. Prints the microseconds of one all-reduce.
//
// Example: mapped_loop 8 1048576
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kMostRanks = 64;
constexpr int kPauses = 100;  // before a rank gives its core up
constexpr int kRounds = 3, kCalls = 100;

// Sixteen at a time, wherever they lie.
using Floats = float __attribute__((vector_size(64), aligned(4)));
constexpr int64_t kFloats = 16;

struct alignas(64) Flag {
  std::atomic<uint64_t> epoch;
};

struct Loop {
  int rank = 0;
  int ranks = 1;
  Flag* flags = nullptr;
  std::vector<float*> data;  // of each rank: [elements]
  int64_t elements = 0;
  uint64_t epoch = 0;

  void Meet() {
    flags[rank].epoch.store(++epoch, std::memory_order_release);
    for (int peer = 0; peer < ranks; ++peer) {
      for (int pause = 0; flags[peer].epoch.load(std::memory_order_acquire) < epoch; ++pause) {
        pause < kPauses ? __builtin_ia32_pause() : static_cast<void>(sched_yield());
      }
    }
  }

  int64_t Part() const { return elements / ranks / kFloats * kFloats; }

  void AllReduce() {
    const int64_t part = Part(), first = rank * part;
    Meet();
    float* const own = data[static_cast<size_t>(rank)] + first;
    for (int peer = 0; peer < ranks; ++peer) {
      const float* const theirs = data[static_cast<size_t>(peer)] + first;
      for (int64_t i = 0; peer != rank && i < part; i += kFloats) {
        *reinterpret_cast<Floats*>(own + i) += *reinterpret_cast<const Floats*>(theirs + i);
      }
    }
    Meet();
    for (int peer = 0; peer < ranks; ++peer) {
      const int64_t at = peer * part;
      if (peer == rank) continue;
      std::memcpy(data[static_cast<size_t>(rank)] + at, data[static_cast<size_t>(peer)] + at,
                  static_cast<size_t>(part) * sizeof(float));
    }
    Meet();
  }

  double BestUs() {
    double best = 1e18;
    for (int round = 0; round < kRounds; ++round) {
      Meet();
      const auto begin = std::chrono::steady_clock::now();
      for (int call = 0; call < kCalls; ++call) AllReduce();
      best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    return best / kCalls;
  }
};

void* Shared(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) std::exit(6);
  std::memset(data, 0, bytes);
  return data;
}

}  // namespace

int main(int argc, char** argv) {
  Loop loop;
  loop.ranks = argc > 1 ? std::clamp(std::atoi(argv[1]), 1, kMostRanks) : 8;
  loop.elements = (argc > 2 ? std::atoll(argv[2]) : 1 << 20) / static_cast<int64_t>(sizeof(float));
  loop.flags = static_cast<Flag*>(Shared(sizeof(Flag) * kMostRanks));
  for (int rank = 0; rank < loop.ranks; ++rank) {
    loop.data.push_back(static_cast<float*>(Shared(static_cast<size_t>(loop.elements) * sizeof(float) + 64)));
  }
  for (int rank = 1; rank < loop.ranks; ++rank) {
    if (fork() != 0) continue;
    loop.rank = rank;
    loop.BestUs();
    _exit(0);
  }
  std::printf("%.2f\n", loop.BestUs());
  while (wait(nullptr) > 0) {
  }
  return 0;
}
