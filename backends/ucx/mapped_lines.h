// MappedLines: lines in memory that all ranks share: no descriptor for any peer.
//
// Each rank has a block: its last word, what it does and for whom it waits, a count of its thread's beats, and a mutex that
// this thread holds for as long as it lives (alive_mutex.h), a zombie's not; each rank's thread tries those of its peers ten times a
// second, and when it is called.
//
// Note: blocks are read by who does not trust them: words are clamped and escaped, numbers checked.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "zeroshard/backends/gloo/lines.h"
#include "zeroshard/backends/ucx/mapped_region.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/comm/versioned_value.h"

namespace zeroshard::backends {

class MappedLines final : public Lines {
 public:
  // Of each rank's part of the region, from `offset` on.
  static int64_t Bytes() { return static_cast<int64_t>(sizeof(Block)); }

  // `region` is mapped, holds zeros from `offset` on (a multiple of 64), and outlives this. Peers are watched as soon as their
  // own are made.
  MappedLines(const MappedRegion& region, int64_t offset, const ConnectOptions& options, Heard heard);
  ~MappedLines() override;

  void TakeLeave() override { Say(Word::kLeave, absl::OkStatus()); }
  void GiveUp(const absl::Status& why) override { Say(Word::kGiveUp, why); }
  void Doing(const comm::OperationHeader& operation) override { Mine().doing.Store(operation); }
  // Exact: its memory outlives it.
  std::string LastOf(int peer) const override {
    return comm::DescribeLast(blocks_[static_cast<size_t>(peer)]->doing.Load());
  }

 private:
  enum class Word : uint32_t { kNone, kLeave, kGiveUp };

  struct alignas(64) Block {
    std::atomic<uint32_t> ready;  // the mutex is made, and held
    std::atomic<uint32_t> calls;  // a futex: the thread has something to look at
    std::atomic<uint64_t> beats;
    std::atomic<int32_t> waits_for;
    std::atomic<int32_t> elsewhere;  // as of the last beat
    std::atomic<uint32_t> word;
    int32_t code;  // with what follows, before `word`
    uint32_t text_bytes;
    std::array<char, 512> text;
    comm::VersionedValue<comm::OperationHeader> doing;
    pthread_mutex_t alive;
  };

  void NoteWait(int peer) override { Mine().waits_for.store(peer, std::memory_order_relaxed); }
  Block& Mine() { return *blocks_[static_cast<size_t>(rank_)]; }
  void Say(Word word, const absl::Status& why);
  bool Ask(int peer, Answer& answer) override;
  static void Call(Block& block);
  void Listen();
  void Look(int peer);

  std::vector<Block*> blocks_;  // [world_size]
  std::atomic<bool> said_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace zeroshard::backends
