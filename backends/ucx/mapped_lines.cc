#include "zeroshard/backends/ucx/mapped_lines.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "absl/time/clock.h"
#include "glog/logging.h"
#include "zeroshard/backends/ucx/alive_mutex.h"
#include "zeroshard/backends/ucx/futex.h"

namespace zeroshard::backends {
namespace {

// How often a thread looks at its peers when nobody calls.
constexpr std::chrono::milliseconds kBeat{100};
// How often one that asks looks for the answer.
constexpr absl::Duration kLook = absl::Milliseconds(2);

}  // namespace

MappedLines::MappedLines(const MappedRegion& region, int64_t offset, const ConnectOptions& options, Heard heard)
    : Lines(options, std::move(heard)) {
  for (int owner = 0; owner < options.world_size; ++owner) {
    auto* at = static_cast<std::byte*>(owner == options.rank ? region.data() : region.address(owner)) + offset;
    blocks_.push_back(reinterpret_cast<Block*>(at));
  }
  Mine().waits_for.store(-1, std::memory_order_relaxed);
  Mine().elsewhere.store(-1, std::memory_order_relaxed);
  MakeAliveMutex(Mine().alive);
  thread_ = std::thread([this] { Listen(); });
  Mine().ready.wait(0, std::memory_order_acquire);
}

MappedLines::~MappedLines() {
  stop_.store(true, std::memory_order_release);
  Call(Mine());
  thread_.join();
}

void MappedLines::Say(Word word, const absl::Status& why) {
  if (said_.exchange(true)) return;
  Block& mine = Mine();
  mine.code = static_cast<int32_t>(why.code());
  mine.text_bytes = static_cast<uint32_t>(std::min(why.message().size(), mine.text.size()));
  std::copy_n(why.message().data(), mine.text_bytes, mine.text.data());
  mine.word.store(static_cast<uint32_t>(word), std::memory_order_release);
  for (Block* block : blocks_) {
    if (block != &mine) Call(*block);
  }
}

bool MappedLines::Ask(int peer, Answer& answer) {
  Block& block = *blocks_[static_cast<size_t>(peer)];
  const uint64_t before = block.beats.load(std::memory_order_acquire);
  Call(block);
  const absl::Time end = absl::Now() + kPatience;
  while (block.beats.load(std::memory_order_acquire) == before) {
    if (state(peer) != State::kHere || absl::Now() >= end) return false;
    absl::SleepFor(kLook);
  }
  answer = {.waits_for = block.waits_for.load(std::memory_order_relaxed),
            .doing = LastIn(block.doing.Load(), block.elsewhere.load(std::memory_order_relaxed))};
  return true;
}

void MappedLines::Call(Block& block) {
  block.calls.fetch_add(1, std::memory_order_seq_cst);
  WakeFutex(block.calls);
}

void MappedLines::Listen() {
  Block& mine = Mine();
  CHECK_EQ(pthread_mutex_lock(&mine.alive), 0);
  mine.ready.store(1, std::memory_order_release);
  mine.ready.notify_all();
  while (true) {
    const uint32_t calls = mine.calls.load(std::memory_order_seq_cst);  // First: what comes after it wakes.
    if (stop_.load(std::memory_order_acquire)) break;
    mine.elsewhere.store(Elsewhere(), std::memory_order_relaxed);
    mine.beats.fetch_add(1, std::memory_order_release);
    for (int peer = 0; peer < static_cast<int>(blocks_.size()); ++peer) {
      if (peer != rank_ && state(peer) == State::kHere) Look(peer);
    }
    SleepOnFutex(mine.calls, calls, kBeat);
  }
  pthread_mutex_unlock(&mine.alive);
}

void MappedLines::Look(int peer) {
  Block& block = *blocks_[static_cast<size_t>(peer)];
  const bool here = block.ready.load(std::memory_order_acquire) == 0 || HeldByTheLiving(block.alive);
  const uint32_t word = block.word.load(std::memory_order_acquire);  // After the mutex: it was said before that was let go.
  if (word == static_cast<uint32_t>(Word::kLeave)) {
    Conclude(peer, State::kLeft, absl::OkStatus());
  } else if (word != 0) {
    const size_t bytes = std::min<size_t>(block.text_bytes, block.text.size());
    Conclude(peer, State::kFailed, GaveUp(peer, block.code, std::string_view(block.text.data(), bytes)));
  } else if (!here) {
    Conclude(peer, State::kFailed, Gone(peer, "nobody holds its memory"));
  }
}

}  // namespace zeroshard::backends
